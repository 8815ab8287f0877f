"""Where every item went: spansieve's own counters, and what they are held against."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

SIGNALS = {"traces": "spans", "metrics": "metric_points", "logs": "log_records"}

_FILTER = "low_value_filter"
_SAMPLED_OUT = "sampled_out"
_SHORT_NS = 1_000_000


@dataclasses.dataclass
class Account:
    """The items of one signal, from the /metrics page."""

    received: int = 0
    sampled_out: int = 0
    filtered: dict[str, int] = dataclasses.field(default_factory=dict)
    merged: int = 0
    sent: int = 0
    queued: int = 0
    failed: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    bytes_uncompressed: int = 0

    @property
    def explained(self) -> int:
        """Items of which it is known where they went."""
        filtered = sum(self.filtered.values())
        return self.sampled_out + filtered + self.merged + self.sent + self.queued + self.failed


def read_accounts(samples: Iterable[Any]) -> dict[str, Account]:
    """Return the account of each signal.

    Args:
        samples: of the /metrics page, with `name`, `labels` and `value`.
    """
    accounts = {signal: Account() for signal in SIGNALS}
    for sample in samples:
        value = int(sample.value)
        for signal, items in SIGNALS.items():
            account = accounts[signal]
            if sample.name == f"otelcol_receiver_accepted_{items}":
                account.received += value
            elif sample.name == f"otelcol_exporter_sent_{items}":
                account.sent += value
            elif sample.name == f"otelcol_exporter_send_failed_{items}":
                account.failed += value
        labels = sample.labels
        signal = labels.get("otel_signal") or labels.get("data_type")
        if signal in accounts:
            _add(accounts[signal], sample.name, labels, value)
    return accounts


def _add(account: Account, name: str, labels: Mapping[str, str], value: int) -> None:
    if name == "spansieve_processor_dropped_items":
        rule = labels["rule"]
        if rule == _SAMPLED_OUT:
            account.sampled_out += value
        elif labels["processor"] == _FILTER:
            account.filtered[rule] = account.filtered.get(rule, 0) + value
        else:
            account.merged += value
    elif name in ("spansieve_processor_pending_items", "otelcol_exporter_queue_size"):
        account.queued += value  # demo.yaml counts its queue in items
    elif name == "spansieve_processor_failed_items":
        account.failed += value
    elif name == "spansieve_receiver_bytes":
        account.bytes_in += value
    elif name == "spansieve_exporter_sent_bytes":
        account.bytes_out += value
    elif name == "spansieve_exporter_uncompressed_bytes":
        account.bytes_uncompressed += value


class Check(NamedTuple):
    """A statement, and whether it holds."""

    text: str
    holds: bool


def checks(
    accounts: Mapping[str, Account], ledger: list[dict[str, Any]], backend: Mapping[str, Any]
) -> Iterator[Check]:
    """Yield all that must hold.

    Args:
        ledger: the spans that the SDKs recorded.
        backend: what the backend wrote.
    """
    yield Check(
        "received = sampled out + filtered + merged + sent + queued + failed, exactly",
        all(account.received == account.explained for account in accounts.values()),
    )
    counted = [len(backend["spans"]), backend["points"], backend["records"]]
    spans, points, records = counted
    yield Check(
        f"the backend decoded {spans:,} spans, {points:,} points, {records:,} log records: all that was sent",
        counted == [account.sent for account in accounts.values()],
    )
    yield Check(
        f"the SDKs recorded {len(ledger):,} spans: all of them were received",
        len(ledger) == accounts["traces"].received,
    )
    errors = {entry["span"] for entry in ledger if entry["is_error"]}
    arrived = {span for _trace, span, is_error in backend["spans"] if is_error}
    yield Check(f"all {len(errors):,} error spans arrived", bool(errors) and errors == arrived)
    kept, broken = _count_traces(ledger, backend["spans"])
    total = len({entry["trace"] for entry in ledger})
    yield Check(
        f"{kept:,} of {total:,} traces were kept, {broken or 'none'} of them in part by the sampler",
        not broken,
    )
    requests = sum(entry["name"] in ("GET /products", "POST /orders") for entry in ledger)
    series = [value for name, value in backend["sums"].items() if name.startswith("shop.requests{")]
    yield Check(
        f"shop.requests counts {requests:,} requests in {len(series)} series without user ids",
        sum(series) == requests and not any("user.id" in name for name in backend["sums"]),
    )


def _count_traces(ledger: list[dict[str, Any]], spans: list[tuple[str, str, bool]]) -> tuple[int, int]:
    """Return how many traces arrived, and how many of them lack a span that the filter had no reason to take."""
    expected: dict[str, set[str]] = {}
    for entry in ledger:
        if not _is_low_value(entry):
            expected.setdefault(entry["trace"], set()).add(entry["span"])
    arrived: dict[str, set[str]] = {}
    for trace, span, _is_error in spans:
        arrived.setdefault(trace, set()).add(span)
    return len(arrived), sum(expected.get(trace) != found for trace, found in arrived.items())


def _is_low_value(entry: Mapping[str, Any]) -> bool:
    """Say what low_value_filter's defaults should, in our own words."""
    if entry["is_error"] or entry["has_exception"]:
        return False
    is_empty = entry["duration_ns"] < _SHORT_NS and not entry["attributes"]
    return is_empty or entry["name"] == "GET /healthz"


def read_ledgers(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of all ledgers in folder."""
    return [
        json.loads(line) for path in sorted(folder.glob("*.ledger")) for line in path.read_text().splitlines()
    ]
