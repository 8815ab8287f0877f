"""The demonstration as a user runs it, only shorter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from deploy.demo.account import Account, checks
from deploy.demo.processes import ROOT

ROWS = (
    "received",
    "sampled out",
    "filtered: name",
    "filtered: duration and attributes",
    "merged: user.id deleted",
    "sent",
    "queued",
    "failed",
    "bytes in",
    "bytes out",
    "compression ratio",
    "CPU µs a span",
    "peak RSS",
)
LEDGER = [
    {"trace": "t1", "span": "s1", "name": "GET /products", "duration_ns": 5_000_000, "attributes": 3,
     "is_error": True, "has_exception": False},
    {"trace": "t1", "span": "s2", "name": "look up cache", "duration_ns": 10_000, "attributes": 0,
     "is_error": False, "has_exception": False},
    {"trace": "t1", "span": "s3", "name": "SELECT stock", "duration_ns": 10_000, "attributes": 1,
     "is_error": False, "has_exception": False},
    {"trace": "t2", "span": "s4", "name": "GET /products", "duration_ns": 5_000_000, "attributes": 3,
     "is_error": False, "has_exception": False},
]  # fmt: skip
BACKEND = {
    "spans": [("t1", "s1", True), ("t1", "s3", False)],
    "points": 1,
    "records": 4,
    "sums": {"shop.requests{http.route=/products}": 2},
}


def accounts() -> dict[str, Account]:
    """Return what spansieve counted when it did all things right."""
    return {
        "traces": Account(received=4, sampled_out=1, filtered={"duration and attributes": 1}, sent=2),
        "metrics": Account(received=6, merged=5, sent=1),
        "logs": Account(received=4, sent=4),
    }


@pytest.mark.timeout(600)
def test_demo_accounts_for_every_item() -> None:
    """Three SDK programs, spansieve and a backend agree on every item, and the table is complete."""
    command = [sys.executable, "-m", "deploy.demo", "--seconds", "2"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=540, check=False)
    assert 0 == result.returncode, result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert [] == [row for row in ROWS if not any(line.startswith(row) for line in lines)]
    assert 6 == sum(line.startswith("ok ") for line in lines)
    assert "" == result.stderr


def test_all_checks_hold_when_all_is_right() -> None:
    """The checks accept a run in which everything adds up."""
    assert all(check.holds for check in checks(accounts(), LEDGER, BACKEND))


@pytest.mark.parametrize(
    ("what", "fails"),
    [
        ("a lost span", [0]),
        ("a span that the backend did not see", [1, 4]),
        ("a span that nobody received", [0, 2]),
        ("a lost error", [3, 4]),
        ("a trace in part", [4]),
        ("a user id", [5]),
    ],
)
def test_check_fails_for(what: str, fails: list[int]) -> None:
    """Each check can fail, and does for what it is there for."""
    found, spans, sums = accounts(), list(BACKEND["spans"]), dict(BACKEND["sums"])
    traces = found["traces"]
    if what == "a lost span":
        traces.sampled_out -= 1
    elif what == "a span that the backend did not see":
        spans.pop()
    elif what == "a span that nobody received":
        traces.received -= 1
    elif what == "a lost error":
        spans[0] = ("t1", "s9", False)
    elif what == "a trace in part":
        spans[1] = ("t2", "s9", False)
    else:
        sums["shop.requests{http.route=/products,user.id=7}"] = 0
    backend = {**BACKEND, "spans": spans, "sums": sums}
    assert fails == [n for n, check in enumerate(checks(found, LEDGER, backend)) if not check.holds]
