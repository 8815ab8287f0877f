"""The main loop: timers by a fake clock, descriptors and signals for real."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from collector.service.loop import Loop
from collector.telemetry.logs import Log


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(log: Log, clock: Clock):
    with Loop(log, clock) as loop:
        yield loop


def _run_once(loop: Loop) -> None:
    """Run what is due without sleeping."""
    loop.call_soon(lambda: None)
    loop.run_once()


def test_timer_calls_back_each_period(timed: Loop, clock: Clock) -> None:
    """Not at once, then once a period, on the grid of the first."""
    calls: list[float] = []
    timed.every(1.0, lambda: calls.append(clock.now_s))
    for now_s in (1000.5, 1001.0, 1001.2, 1002.3, 1003.0):
        clock.now_s = now_s
        _run_once(timed)
    assert [1001.0, 1002.3, 1003.0] == calls


def test_missed_periods_are_not_made_up_for(timed: Loop, clock: Clock) -> None:
    """After a long stall there is one call, and the next a period later."""
    calls: list[float] = []
    timed.every(1.0, lambda: calls.append(clock.now_s))
    for now_s in (1010.0, 1010.5, 1011.0):
        clock.now_s = now_s
        _run_once(timed)
    assert [1010.0, 1011.0] == calls


def test_cancelled_timer_does_not_call(timed: Loop, clock: Clock) -> None:
    """Cancelling is final and may be repeated."""
    calls: list[int] = []
    timer = timed.every(1.0, lambda: calls.append(1))
    timer.cancel()
    timer.cancel()
    clock.now_s += 5
    _run_once(timed)
    assert [] == calls


def test_loop_without_timers_sleeps_for_ever(timed: Loop) -> None:
    """An idle collector is not woken; a cancelled timer does not wake it either."""
    assert timed._timeout_ms() is None
    timer = timed.every(1.0, lambda: None)
    assert 1000 == timed._timeout_ms()
    timer.cancel()
    assert timed._timeout_ms() is None


def test_readable_descriptor_calls_back_until_cancelled(loop: Loop) -> None:
    """A watched descriptor is called for as long as it has something to read."""
    read_end, write_end = os.pipe()
    calls: list[bytes] = []
    watch = loop.on_readable(read_end, lambda: calls.append(os.read(read_end, 1)))
    os.write(write_end, b"ab")
    loop.run_once()
    loop.run_once()
    watch.cancel()
    watch.cancel()
    os.write(write_end, b"c")
    _run_once(loop)
    os.close(read_end)
    os.close(write_end)
    assert [b"a", b"b"] == calls


def test_closed_descriptor_is_forgotten(loop: Loop) -> None:
    """A descriptor that is closed while watched does not keep the loop awake."""
    read_end, write_end = os.pipe()
    loop.on_readable(read_end, lambda: pytest.fail("called"))
    os.close(read_end)
    os.close(write_end)
    loop.run_once()
    assert [] == [fd for fd, _events in loop._poll.poll(0) if fd == read_end]


def test_callback_from_another_thread_wakes_the_loop(loop: Loop) -> None:
    """A sleeping loop runs what another thread hands over, on its own thread."""
    threads: list[int] = []

    def note() -> None:
        threads.append(threading.get_ident())
        loop.stop()

    other = threading.Thread(target=loop.call_soon, args=(note,))
    other.start()
    loop.run()
    other.join()
    assert [threading.get_ident()] == threads


def test_signal_calls_back_on_the_loop(loop: Loop) -> None:
    """Each signal of its own kind; the default action does not happen."""
    calls: list[str] = []
    loop.on_signal(signal.SIGHUP, lambda: calls.append("hup"))
    loop.on_signal(signal.SIGTERM, lambda: calls.append("term"))
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGHUP)
    while len(calls) < 2:
        loop.run_once()
    assert {"hup", "term"} == set(calls)


def test_closed_loop_gives_signals_back(log: Log) -> None:
    """Handlers of the process are as they were before the loop."""
    before = signal.getsignal(signal.SIGHUP)
    with Loop(log) as loop:
        loop.on_signal(signal.SIGHUP, lambda: None)
        assert before is not signal.getsignal(signal.SIGHUP)
    assert before is signal.getsignal(signal.SIGHUP)
    assert -1 == signal.set_wakeup_fd(-1)


def test_callback_that_raises_is_logged(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """After start nothing ends the process."""
    calls: list[int] = []
    loop.call_soon(lambda: 1 / 0)  # type: ignore[arg-type,return-value]
    loop.call_soon(lambda: calls.append(1))
    loop.run_once()
    assert [1] == calls
    assert ["callback failed"] == [record.message for record in caplog.records]
