"""The main thread's loop: signals, timers and a few file descriptors; asleep whenever none of them is due.

It carries no data: requests never pass here. An idle collector without periodic control is not woken at all.
"""

from __future__ import annotations

import itertools
import os
import select
import time
from collections.abc import Callable

from collector.lean import TYPE_CHECKING, Self, signal, suppress
from collector.telemetry.logs import Log
from collector.threads import Lock

if TYPE_CHECKING:
    from types import TracebackType

Callback = Callable[[], None]


class Timer:
    """A periodic callback."""

    __slots__ = ("callback", "is_cancelled", "period_s")

    def __init__(self, period_s: float, callback: Callback) -> None:
        self.period_s = period_s
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        """Call back no more; the loop forgets the timer when it is next due."""
        self.is_cancelled = True


class Watch:
    """A file descriptor that is watched for reading."""

    __slots__ = ("_fd", "_loop")

    def __init__(self, loop: Loop, fd: int) -> None:
        self._loop = loop
        self._fd: int | None = fd

    def cancel(self) -> None:
        """Call back no more."""
        if self._fd is not None:
            self._loop.forget(self._fd)
            self._fd = None


class Loop:
    """Runs callbacks on the thread that calls `run`; everything else is safe from any thread.

    Args:
        log: where a callback that raises is reported; the loop goes on.
        clock: seconds, monotonic.
        ignores_signals_at_end: `close` leaves signals without effect, instead of giving them back.
    """

    def __init__(
        self,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        *,
        ignores_signals_at_end: bool = False,
    ) -> None:
        self._log = log
        self._ignores_signals_at_end = ignores_signals_at_end
        self._clock = clock
        self._lock = Lock()
        self._timers: list[tuple[float, int, Timer]] = []  # few, sorted
        self._order = itertools.count()
        self._soon: list[Callback] = []
        self._readable: dict[int, Callback] = {}
        self._signals: dict[int, Callback] = {}
        self._previous_handlers: dict[int, object] = {}
        self._is_stopped = False
        self._poll = select.poll()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._poll.register(self._wake_read, select.POLLIN)

    def every(self, period_s: float, callback: Callback) -> Timer:
        """Call back each period_s seconds, > 0; first after one period. Missed periods are not made up for."""
        timer = Timer(period_s, callback)
        with self._lock:
            self._set(self._clock() + period_s, timer)
        self._wake()
        return timer

    def on_readable(self, fd: int, callback: Callback) -> Watch:
        """Call back whenever fd has something to read or has failed."""
        with self._lock:
            self._readable[fd] = callback
            self._poll.register(fd, select.POLLIN)
        self._wake()
        return Watch(self, fd)

    def forget(self, fd: int) -> None:
        """Watch fd no more."""
        with self._lock:
            if self._readable.pop(fd, None) is not None:
                self._poll.unregister(fd)
        self._wake()

    def on_signal(self, number: int, callback: Callback) -> None:
        """Call back on the loop when the process is sent the signal; only from the main thread."""
        self._signals[number] = callback
        previous = signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})  # it may have been held back for this moment
        self._previous_handlers.setdefault(number, previous)
        # A full pipe wakes just as well as one more byte in it would.
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def call_soon(self, callback: Callback) -> None:
        """Call back once, on the loop."""
        with self._lock:
            self._soon.append(callback)
        self._wake()

    def stop(self) -> None:
        """Make `run` return after the callbacks that are due now."""
        self._is_stopped = True
        self._wake()

    def run(self) -> None:
        """Call back what is due until `stop`."""
        while not self._is_stopped:
            self.run_once()

    def run_once(self) -> None:
        """Sleep until something is due, then call it back."""
        for fd, events in self._poll.poll(self._timeout_ms()):
            if fd == self._wake_read:
                self._read_wake_ups()
            elif events & select.POLLNVAL:
                # Closed before its watch was cancelled: it would wake the loop for ever.
                self.forget(fd)
            elif (callback := self._readable.get(fd)) is not None:
                self._call(callback)
        self._run_soon()
        self._run_timers()

    def close(self) -> None:
        """Give the signals back to their former handlers and close the pipe."""
        if self._previous_handlers:
            signal.set_wakeup_fd(-1)
        for number, previous in self._previous_handlers.items():
            handler = signal.SIG_IGN if self._ignores_signals_at_end else previous
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._previous_handlers.clear()
        self._readable.clear()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    def _timeout_ms(self) -> float | None:
        with self._lock:
            while self._timers and self._timers[0][2].is_cancelled:
                self._timers.pop(0)
            if not self._timers:
                return None
            return max(0.0, (self._timers[0][0] - self._clock()) * 1000)

    def _set(self, time_s: float, timer: Timer) -> None:
        self._timers.append((time_s, next(self._order), timer))
        self._timers.sort()

    def _read_wake_ups(self) -> None:
        with suppress(BlockingIOError):
            for number in os.read(self._wake_read, 4096):
                if (callback := self._signals.get(number)) is not None:
                    self._call(callback)

    def _run_soon(self) -> None:
        with self._lock:
            due, self._soon = self._soon, []
        for callback in due:
            self._call(callback)

    def _run_timers(self) -> None:
        now = self._clock()
        with self._lock:
            due = []
            while self._timers and self._timers[0][0] <= now:
                due.append(self._timers.pop(0))
        for time_s, _order, timer in due:
            if timer.is_cancelled:
                continue
            self._call(timer.callback)
            behind = now - time_s
            next_s = time_s + timer.period_s if behind < timer.period_s else now + timer.period_s
            with self._lock:
                self._set(next_s, timer)

    def _call(self, callback: Callback) -> None:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 after start nothing ends the process
            self._log.error("callback failed", error=repr(error))
