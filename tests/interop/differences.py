"""What differences.md lists, read so that the tests hold it to be true, no more and no less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Outcome(Protocol):
    """What one of the two did: as a text, and what it sent on."""

    def __str__(self) -> str: ...

    @property
    def content(self) -> Sequence[bytes]: ...


class Difference(NamedTuple):
    """A row: which cases, what both do. The same texts twice: what they send on differs."""

    cases: str
    collector: str
    spansieve: str


def _read() -> Iterator[Difference]:
    for line in Path(__file__).with_name("differences.md").read_text().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip().strip("`") for cell in line.strip("| ").split(" | ")]
            yield Difference(*cells[:3])


LISTED = list(_read())
SEEN: set[Difference] = set()
"""The rows that some case has shown to be true in this run."""


def check(case: str, outcomes: Mapping[str, Outcome]) -> None:
    """Compare what both did with a case: the same, or what is listed.

    Raises:
        AssertionError: neither.
    """
    problem = find(case, outcomes)
    assert not problem, f"not in differences.md: {problem}"


def find(case: str, outcomes: Mapping[str, Outcome]) -> str:
    """Return how what both did with a case differs; "" if it does not, or as is listed. `*` in a row is any text."""
    theirs, ours = outcomes["collector"], outcomes["spansieve"]
    if str(theirs) == str(ours) and theirs.content == ours.content:
        return ""
    for row in LISTED:
        if all(_matches(cell, text) for cell, text in zip(row, (case, str(theirs), str(ours)), strict=True)):
            SEEN.add(row)
            return ""
    difference = f"| `{case}` | `{theirs}` | `{ours}` |"
    contents = [str(outcome.content) for outcome in (theirs, ours) if outcome.content]
    return "\n".join([difference, *contents])


def _matches(cell: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, cell.split("*"))), text) is not None


def out_of_date(*prefixes: str) -> list[Difference]:
    """Return the rows of cases that begin so which no case has shown; those that begin with `*` belong to all."""
    return [row for row in LISTED if row.cases.startswith(prefixes) and row not in SEEN]
