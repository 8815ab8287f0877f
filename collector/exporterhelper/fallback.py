"""Which compression a server takes, found out by what becomes of requests.

A server that does not know a compression says so in many ways: by a status of its choice, by a reset stream, by a
closed connection, and behind a proxy not in its own words. So as long as it has not taken the configured compression,
whatever a request fails with may be the fault of the compression: what is refused for good is sent with the next one
at once, and what is to be tried again later is, with the next one. Two requests in a row, which a server refuses and
takes with the next one, settle it; one may have met a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collector.lean import Any, NamedTuple, StrEnum
from collector.threads import Lock

_EVIDENCE = 2
_TRUSTED_FAILURES = 8  # in a row, of a compression that was taken before; then another server may be there
_CHECK_PERIOD = 16  # of failures for a reason that plain requests have failed for too, one is looked into


class Fate(StrEnum):
    """What became of an attempt, as far as compressions are concerned."""

    TAKEN = "taken"
    REFUSED = "refused"
    """For good; the server's reason may be the compression."""
    LATER = "later"
    """Another attempt may succeed; the reason may be the compression."""
    UNRELATED = "unrelated"
    """Failed for another reason: nothing was sent, nobody wants it any more, the server asked for patience."""


class Outcome(NamedTuple):
    """What came of an attempt.

    Attributes:
        result: for the caller.
        code: the server's status.
        text: what it said.
        is_telling: servers answer so to a compression that they do not know.
    """

    fate: Fate
    result: Any
    code: int = 0
    text: str = ""
    is_telling: bool = False

    @property
    def reason(self) -> tuple[int, str]:
        """Why it failed, without numbers: sizes, times and ids are others each time."""
        return self.code, "".join(character for character in self.text if not character.isdigit())


class Fallback:
    """The compressions to try, the configured one first; safe in any thread.

    Args:
        chain: at least one; the last is no compression.
        retries: what is to be tried again later will be.
        adopt: called with the compression that the server refuses and the one to use instead.
        accepted: returns how many requests with a compression the server has taken; by default those seen here count.
    """

    def __init__(
        self,
        chain: Sequence[str],
        *,
        retries: bool,
        adopt: Callable[[str, str], None],
        accepted: Callable[[str], int] | None = None,
    ) -> None:
        self._retries = retries
        self._adopt = adopt
        self._accepted = accepted or (lambda compression: self._n_taken.get(compression, 0))
        self._lock = Lock()
        # guarded by _lock
        self._n_taken: dict[str, int] = {}
        self._chain = tuple(chain)
        self._next = chain[0]
        self._harmless: tuple[int, str] | None = None  # what a plain request was refused for
        self._n_harmless = 0
        self._n_accepted = 0  # of the first, when last looked at; what follows is since then
        self._n_failures = 0
        self._n_doubts = 0
        self._has_failed = False  # since the last doubt

    @property
    def compression(self) -> str:
        """What the next attempt is to be made with."""
        return self._next

    def settle(self, compression: str, outcome: Outcome, attempt: Callable[[str], Outcome]) -> Outcome:
        """Return what a request comes to, after an attempt with compression.

        Args:
            attempt: sends it once more.
        """
        if outcome.fate is Fate.TAKEN:
            self._take(compression)
            return outcome
        if not self._is_suspect(compression, outcome):
            return outcome
        if outcome.fate is Fate.LATER and self._retries:
            self._turn(compression)
            return outcome
        made = []
        for lesser in self._after(compression):
            last = attempt(lesser)
            if last.fate is Fate.TAKEN:
                self._take(lesser)
                return last
            if last.fate is Fate.UNRELATED or (last.fate is Fate.LATER and self._retries):
                self._next = lesser
                return last
            made.append((lesser, last))
        return self._compare(outcome, made) if made else outcome

    def _compare(self, outcome: Outcome, made: Sequence[tuple[str, Outcome]]) -> Outcome:
        """Return the answer to a plain request, the last one made, after none was taken."""
        plain, answer = made[-1]
        if answer.fate is Fate.REFUSED:
            self._harmless = answer.reason
            better = next(lesser for lesser, other in made if other.reason == answer.reason)
            # Two texts under one code may tell the same twice.
            if outcome.reason != answer.reason and (better != plain or outcome.code != answer.code):
                self._doubt(better)
        return answer

    def _after(self, compression: str) -> tuple[str, ...]:
        chain = self._chain
        return chain[chain.index(compression) + 1 :] if compression in chain else chain

    def _is_suspect(self, compression: str, outcome: Outcome) -> bool:
        """Tell whether compression may be why the request failed; it has, and is not forgotten."""
        with self._lock:
            first, last = self._chain[0], self._chain[-1]
            self._look(first)
            self._n_failures += 1
            if outcome.fate is Fate.UNRELATED or first == last == compression:
                return False
            if outcome.fate is Fate.REFUSED and outcome.reason == self._harmless:
                self._n_harmless += 1
                if self._n_harmless % _CHECK_PERIOD:
                    return False
            if compression not in self._chain:
                return True  # on its way since before another was adopted
            if compression == first:
                self._has_failed = True
            if self._n_accepted and self._n_failures <= _TRUSTED_FAILURES:
                return outcome.fate is Fate.REFUSED and outcome.is_telling and compression != last
            return outcome.fate is Fate.LATER or compression != last

    def _turn(self, compression: str) -> None:
        with self._lock:
            if compression == self._next:
                at = self._chain.index(compression) + 1
                self._next = self._chain[at % len(self._chain)]

    def _take(self, compression: str) -> None:
        with self._lock:
            self._n_taken[compression] = self._n_taken.get(compression, 0) + 1
            self._next = self._chain[0]
        if compression != self._chain[0]:
            self._doubt(compression)

    def _doubt(self, better: str) -> None:
        """Note that a request got further with better than with the first; adopt it when that is no accident."""
        with self._lock:
            first = self._chain[0]
            if better not in self._chain or not self._has_failed:
                return  # others have noted that already
            self._look(first)
            self._has_failed = False
            self._n_doubts += 1
            if self._n_doubts < _EVIDENCE:
                return
            self._chain = self._chain[self._chain.index(better) :]
            self._next = better
            self._n_accepted = self._accepted(better)
            self._n_failures = self._n_doubts = 0
        self._adopt(first, better)

    def _look(self, first: str) -> None:
        """Forget failures and doubts where the first has been taken since; _lock is held."""
        n_accepted = self._accepted(first)
        if n_accepted != self._n_accepted:
            self._n_accepted = n_accepted
            self._n_failures = self._n_doubts = 0
