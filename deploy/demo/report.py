"""The table that the demonstration ends with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from deploy.demo.account import Account, Check

_LABEL, _COLUMN = 36, 14
_SHOWN = {"traces": "spans", "metrics": "metric points", "logs": "log records"}


def table(accounts: Mapping[str, Account], cpu_s: float, peak_rss_bytes: int) -> Iterator[str]:
    """Yield the lines of the table.

    Args:
        cpu_s: of the whole process, from when it was ready.
    """

    def row(label: str, value: Callable[[Account], str]) -> str:
        return _line(label, *(value(account) for account in accounts.values()))

    yield _line("", *(_SHOWN[signal] for signal in accounts))
    yield "-" * (_LABEL + _COLUMN * len(accounts))
    yield row("received", lambda account: _count(account.received))
    yield row("sampled out", lambda account: _count(account.sampled_out))
    for rule in accounts["traces"].filtered:
        yield row(f"filtered: {rule}", lambda account, rule=rule: _count(account.filtered.get(rule, 0)))  # type: ignore[misc]
    yield row("merged: user.id deleted", lambda account: _count(account.merged))
    yield row("sent", lambda account: _count(account.sent))
    yield row("queued", lambda account: _count(account.queued))
    yield row("failed", lambda account: _count(account.failed))
    yield row("bytes in", lambda account: _count(account.bytes_in))
    yield row("bytes out", lambda account: _count(account.bytes_out))
    yield row(
        "compression ratio",
        lambda account: f"{account.bytes_uncompressed / account.bytes_out:.1f}" if account.bytes_out else "-",
    )
    spans = accounts["traces"].received
    yield _line("CPU µs a span, all signals' work", f"{cpu_s * 1e6 / spans:.1f}" if spans else "-")
    yield _line("peak RSS", f"{peak_rss_bytes / (1 << 20):.1f} MiB")


def verdicts(checks: list[Check]) -> Iterator[str]:
    """Yield a line for each check."""
    for check in checks:
        yield f"{'ok  ' if check.holds else 'FAIL'}  {check.text}"


def _line(label: str, *values: str) -> str:
    return label.ljust(_LABEL) + "".join(value.rjust(_COLUMN) for value in values)


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"
