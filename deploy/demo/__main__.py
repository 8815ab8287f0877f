"""Run the demonstration: start everything, shop for a while, account for every item, stop everything."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from deploy.demo import report
from deploy.demo.account import Account, checks, read_accounts, read_ledgers
from deploy.demo.processes import ROOT, Program, Spansieve
from deploy.demo.shoppers import Shoppers

PICTURE = """\
    shoppers ──▶ frontend ──▶ checkout ──▶ inventory     three programs with the OpenTelemetry SDK
                    │ gRPC       │ HTTP       │ HTTP
                    │ protobuf   │ protobuf   │ JSON
                    └──────▶ spansieve ◀──────┘          deploy/config/demo.yaml
                                 │ gRPC, zstd
                                 ▼
                              backend                    decodes and counts
"""
CONFIG = ROOT / "deploy/config/demo.yaml"

_SETTLE_S = 10.0
_POLL_S = 0.1
_FREE = "127.0.0.1:0"


def main(arguments: list[str] | None = None) -> int:
    """Return 0 when everything adds up, else 1."""
    parser = argparse.ArgumentParser(prog="demo", description="A small shop behind spansieve.")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long to shop (default 15)")
    seconds = parser.parse_args(arguments).seconds
    # As with Ctrl-C, everything that was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return _demonstrate(seconds)
    except KeyboardInterrupt:
        return 130


def _demonstrate(seconds: float) -> int:
    print(PICTURE, flush=True)
    with tempfile.TemporaryDirectory(prefix="spansieve-demo-") as folder:
        run = _run(Path(folder), seconds)
        found = list(checks(run.accounts, read_ledgers(Path(folder)), run.received))
    print("\n".join(["", *run.table, "", *report.verdicts(found)]))
    if all(check.holds for check in found):
        return 0
    print("\nspansieve said:", *run.complaints, sep="\n")
    return 1


class _Run(NamedTuple):
    """What is left of a run: spansieve's counters, the table, what the backend had, spansieve's warnings."""

    accounts: dict[str, Account]
    table: list[str]
    received: dict[str, Any]
    complaints: list[str]


def _run(folder: Path, seconds: float) -> _Run:
    tally = folder / "backend.json"
    with (
        Program("backend", folder, str(tally)) as backend,
        Spansieve(
            CONFIG,
            BACKEND=f"127.0.0.1:{backend.port}",
            OTLP_GRPC=_FREE,
            OTLP_HTTP=_FREE,
            HEALTH=_FREE,
            METRICS_PORT="0",
        ) as spansieve,
    ):
        print(
            f"spansieve was ready after {spansieve.ready_ms:.0f} ms; shopping for {seconds:g} s ...",
            flush=True,
        )
        cpu_s = _cpu_s(spansieve)
        _shop(folder, spansieve, seconds)
        accounts = _settle(spansieve)
        table = list(report.table(accounts, _cpu_s(spansieve) - cpu_s, spansieve.peak_rss_bytes()))
        spansieve.stop()
        backend.stop()
    complaints = [line.rstrip() for line in spansieve.log if "\twarn\t" in line or "\terror\t" in line]
    return _Run(accounts, table, json.loads(tally.read_text()), complaints)


def _shop(folder: Path, spansieve: Spansieve, seconds: float) -> None:
    """Run the shop for a while; its services have sent everything when this returns."""

    def start(service: str, **environment: str) -> Program:
        return Program(
            service,
            folder,
            OTLP_GRPC=spansieve.grpc,
            OTLP_HTTP=spansieve.http,
            SHOP_LEDGER=str(folder / f"{service}.ledger"),
            **environment,
        )

    with (
        start("inventory") as inventory,
        start("checkout", INVENTORY_PORT=str(inventory.port)) as checkout,
        start("frontend", INVENTORY_PORT=str(inventory.port), CHECKOUT_PORT=str(checkout.port)) as frontend,
        Shoppers(frontend.port, [frontend.port, checkout.port, inventory.port]),
    ):
        time.sleep(seconds)


def _settle(spansieve: Spansieve) -> dict[str, Account]:
    """Return the accounts once nothing is queued, or as they are after a while."""
    deadline_s = time.monotonic() + _SETTLE_S
    while True:
        accounts = read_accounts(spansieve.samples())
        if time.monotonic() > deadline_s or not any(account.queued for account in accounts.values()):
            return accounts
        time.sleep(_POLL_S)


def _cpu_s(spansieve: Spansieve) -> float:
    return sum(
        float(sample.value) for sample in spansieve.samples() if sample.name == "otelcol_process_cpu_seconds"
    )


if __name__ == "__main__":
    sys.exit(main())
