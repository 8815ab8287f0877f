"""Which known word a misspelt one was meant to be; loaded to complain only.

A slip of the pen changes, adds, drops or swaps a letter or two; case and the marks between words are none at all.
Words that merely share a part, such as `transform` and `metrics_transform`, are others.
"""

from __future__ import annotations

from collections.abc import Iterable

_NO_MARKS = str.maketrans("", "", "_-. ")
_LETTERS_A_SLIP = 4
_MOST_SLIPS = 3


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that word was probably meant to be; None when it resembles none."""
    plain = _plain(word)
    near = []
    for other in known:
        plain_other = _plain(other)
        most = min(_MOST_SLIPS, max(1, min(len(plain), len(plain_other)) // _LETTERS_A_SLIP))
        slips = _count_slips(plain, plain_other, most)
        if slips <= most:
            near.append((slips, other))
    return min(near)[1] if near else None


def _plain(word: str) -> str:
    return word.casefold().translate(_NO_MARKS)


def _count_slips(one: str, two: str, most: int) -> int:
    """Return how many letters to change, add, drop or swap make one of the other; more than most are all the same."""
    if abs(len(one) - len(two)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(two) + 1))
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, other in enumerate(two, 1):
            slips = min(here[-1] + 1, last[column] + 1, last[column - 1] + (letter != other))
            if row > 1 and column > 1 and letter == two[column - 2] and one[row - 2] == other:
                slips = min(slips, before[column - 2] + 1)
            here.append(slips)
        before, last = last, here
    return last[-1]
