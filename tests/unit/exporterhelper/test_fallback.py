"""The choice of a compression that the server takes, against scripted servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from collector.exporterhelper.fallback import Fallback, Fate, Outcome

CHAIN = ("zstd", "gzip", "none")
Server = Callable[[str, int], Outcome]
"""What it makes of an attempt: the compression, and the number of the attempt."""

TAKEN = Outcome(Fate.TAKEN, "sent")


def refused(text: str = "no", code: int = 3, *, is_telling: bool = False) -> Outcome:
    """Return a refusal for good."""
    return Outcome(Fate.REFUSED, text, code, text, is_telling)


def later(text: str = "not now") -> Outcome:
    """Return a refusal for now."""
    return Outcome(Fate.LATER, text, 14, text)


UNSENT = Outcome(Fate.UNRELATED, "connection refused")


class Scene:
    """An exporter that sends to a scripted server."""

    def __init__(self, server: Server, *, retries: bool = True, chain: tuple[str, ...] = CHAIN) -> None:
        self.server = server
        self.attempts: list[str] = []
        self.adopted: list[tuple[str, str]] = []
        self.fallback = Fallback(chain, retries=retries, adopt=lambda *pair: self.adopted.append(pair))
        self._retries = retries

    def attempt(self, compression: str) -> Outcome:
        """Make an attempt."""
        self.attempts.append(compression)
        return self.server(compression, len(self.attempts))

    def send(self, n_retries: int = 6) -> tuple[Outcome, list[str]]:
        """Send a request, with retries where they are on; return what it came to and what was tried."""
        self.attempts.clear()
        for _ in range(n_retries if self._retries else 1):
            compression = self.fallback.compression
            outcome = self.fallback.settle(compression, self.attempt(compression), self.attempt)
            if outcome.fate in (Fate.TAKEN, Fate.REFUSED):
                break
        return outcome, list(self.attempts)


def knows(*compressions: str, otherwise: Outcome) -> Server:
    """Return a server that takes these compressions."""
    return lambda compression, _: TAKEN if compression in compressions else otherwise


FAILURES = {
    "status": refused(),
    "telling status": refused(is_telling=True),
    "retryable status": later(),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize("retries", [True, False])
@pytest.mark.parametrize(
    ("known", "tried"),
    [
        (("gzip", "none"), ["zstd", "gzip"]),
        (("none",), ["zstd", "gzip", "none"]),
    ],
)
def test_any_failure_of_a_first_request_is_followed_by_less_compression(
    failure: Outcome, retries: bool, known: tuple[str, ...], tried: list[str]
) -> None:
    """Nothing is lost; after two requests it is known what the server takes, and the third is sent at once."""
    scene = Scene(knows(*known, otherwise=failure), retries=retries)
    for _ in range(2):
        assert scene.adopted == []
        assert scene.send() == (TAKEN, tried)
    assert scene.adopted == [("zstd", known[0])]
    assert scene.send() == (TAKEN, [known[0]])


def test_a_server_that_varies_its_text_is_found_out() -> None:
    """Refusals that name a request, and another one each time, do not hide which compression is taken."""
    count = iter(range(1000))
    scene = Scene(lambda c, _: TAKEN if c == "none" else refused(f"request {next(count)} is bad"))
    assert [scene.send()[0] for _ in range(3)] == [TAKEN] * 3
    assert scene.adopted == [("zstd", "none")]


def test_dead_backend_does_not_change_the_compression() -> None:
    """Where nothing is sent, nothing is judged."""
    scene = Scene(lambda _, n: UNSENT if n < 6 else TAKEN)
    assert scene.send(10) == (TAKEN, ["zstd"] * 6)
    assert scene.adopted == []


@pytest.mark.parametrize("n_failures", range(1, 8))
def test_backend_that_comes_back_keeps_its_compression(n_failures: int) -> None:
    """Retries turn through the compressions; whichever meets the recovery, one success of it proves nothing."""
    scene = Scene(lambda _, n: later() if n <= n_failures else TAKEN)
    scene.send(10)
    scene.server = lambda *_: TAKEN
    assert scene.send() == (TAKEN, ["zstd"])
    scene.server = knows("gzip", "none", otherwise=refused(is_telling=True))
    scene.send()
    assert scene.adopted == []


def test_one_accident_is_none() -> None:
    """A server that fails once, and takes the same request a moment later, keeps its compression."""
    scene = Scene(lambda _, n: refused() if n == 1 else TAKEN)
    assert scene.send() == (TAKEN, ["zstd", "gzip"])
    scene.server = lambda *_: TAKEN
    assert scene.send() == (TAKEN, ["zstd"])
    assert scene.adopted == []


def test_known_compression_is_not_doubted_for_a_bad_request() -> None:
    """What a server refuses that has taken others is refused, and made once."""
    scene = Scene(lambda *_: TAKEN)
    scene.send()
    scene.server = lambda *_: refused()
    for _ in range(5):
        assert scene.send() == (refused(), ["zstd"])


@pytest.mark.parametrize(
    ("failure", "n_lost"),
    [(refused("what is zstd?", 12, is_telling=True), 0), (refused(), 8), (later(), 1)],
)
def test_older_server_in_place_of_a_newer_one_is_found_out(failure: Outcome, n_lost: int) -> None:
    """A rolling downgrade: the telling refusal at once, any other after eight in a row."""
    scene = Scene(lambda *_: TAKEN)
    scene.send()
    scene.server = knows("gzip", "none", otherwise=failure)
    outcomes = [scene.send(10)[0] for _ in range(12)]
    assert outcomes[n_lost:] == [TAKEN] * (12 - n_lost)
    assert scene.adopted == [("zstd", "gzip")]


def test_mixed_servers_lose_nothing_and_keep_the_compression() -> None:
    """Behind a balancer one of two does not know it: what it refuses goes as gzip, and the other's word counts."""
    scene = Scene(lambda *_: TAKEN)
    refusal = refused(is_telling=True)
    old = knows("gzip", "none", otherwise=refusal)
    for number in range(20):
        scene.server = old if number % 2 else lambda *_: TAKEN
        assert scene.send()[0] == TAKEN
    assert scene.adopted == []


@pytest.mark.parametrize("failure", [refused("unknown service", 12, is_telling=True), refused()])
def test_what_plain_requests_are_refused_for_is_not_the_compression(failure: Outcome) -> None:
    """A missing service: the first request is made three times, later ones once, but for one in sixteen."""
    scene = Scene(lambda *_: failure)
    assert scene.send() == (failure, ["zstd", "gzip", "none"])
    counts = [len(scene.send()[1]) for _ in range(48)]
    assert (counts.count(1), counts.count(3)) == (45, 3)
    assert scene.adopted == []


def test_missing_service_behind_a_compression_that_is_not_known() -> None:
    """What zstd is refused for differs from what plain requests are: gzip it is, and then each request is made once."""
    missing = refused("unknown service", 12, is_telling=True)
    scene = Scene(lambda c, _: refused("reset", 13, is_telling=True) if c == "zstd" else missing)
    for _ in range(2):
        assert scene.send() == (missing, ["zstd", "gzip", "none"])
    assert scene.adopted == [("zstd", "gzip")]
    assert scene.send() == (missing, ["gzip"])
    scene.server = knows("gzip", "none", otherwise=refused())
    assert scene.send() == (TAKEN, ["gzip"])


def test_numbers_in_a_refusal_do_not_make_it_another() -> None:
    """Times, sizes and ids differ from answer to answer."""
    count = iter(range(1000))
    scene = Scene(lambda *_: refused(f"token expired {next(count)} seconds ago", 16))
    scene.send()
    assert len(scene.send()[1]) == 1


def test_failure_for_now_of_less_compression_is_tried_again() -> None:
    """INTERNAL for zstd and UNAVAILABLE for gzip: nothing is dropped, and the retry goes on there."""
    answers = [refused("reset", 13), later(), TAKEN]
    scene = Scene(lambda _, n: answers[n - 1])
    assert scene.send() == (TAKEN, ["zstd", "gzip", "gzip"])


def test_no_compression_leaves_no_choice() -> None:
    """Each failure is what it is."""
    scene = Scene(lambda *_: refused(), chain=("none",))
    assert scene.send() == (refused(), ["none"])
    scene.server = lambda *_: later()
    assert scene.send(3) == (later(), ["none"] * 3)


def test_request_still_on_its_way_when_another_compression_was_adopted() -> None:
    """Its refusal is no loss: it goes with the adopted one."""
    scene = Scene(knows("gzip", "none", otherwise=refused()))
    scene.send()
    scene.send()
    scene.attempts.clear()
    assert scene.fallback.settle("zstd", refused(), scene.attempt) == TAKEN
    assert scene.attempts == ["gzip"]
