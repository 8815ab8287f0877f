"""What differences.md lists, read so that the tests hold it to be true, no more and no less."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol


class Outcome(Protocol):
    """What one of the two did: as a text, and what it sent on."""

    def __str__(self) -> str: ...

    @property
    def content(self) -> list[bytes]: ...


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
    """Compare what both did with a case: the same, or what is listed. `*` in a row stands for any text.

    Raises:
        AssertionError: neither.
    """
    theirs, ours = outcomes["collector"], outcomes["spansieve"]
    if str(theirs) == str(ours) and theirs.content == ours.content:
        return
    for row in LISTED:
        pattern = ".*".join(map(re.escape, row.cases.split("*")))
        if re.fullmatch(pattern, case) and (str(theirs), str(ours)) == row[1:]:
            SEEN.add(row)
            return
    raise AssertionError(
        f"not in differences.md: | `{case}` | `{theirs}` | `{ours}` |\n{theirs.content}\n{ours.content}"
    )
