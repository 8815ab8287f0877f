"""Threads, events and locks on `_thread`: `threading`, with what it imports, is half a megabyte and 4 ms of a start.

Every thread is a daemon: the process ends with its main thread. `threading` may still be imported by whatever needs
it, on any thread; CPython allows for that (bpo-1596321).
"""

from __future__ import annotations

import _thread
from collections.abc import Callable

Lock = _thread.allocate_lock
Local = _thread._local  # noqa: SLF001 as threading does
TIMEOUT_MAX = _thread.TIMEOUT_MAX


class Event:
    """A flag that threads can wait for, and that stays up once it is."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_set = False
        self._waiting: list[_thread.LockType] = []  # one each, locked, so that it can be waited for

    def is_set(self) -> bool:
        """Return whether the flag is up."""
        return self._is_set

    def set(self) -> None:
        """Raise the flag and wake all who wait for it."""
        with self._lock:
            self._is_set = True
            waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake.release()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return True as soon as the flag is up, False after timeout_s seconds; None waits for ever."""
        with self._lock:
            if self._is_set:
                return True
            wake = Lock()
            wake.acquire()
            self._waiting.append(wake)
        if wake.acquire(timeout=_limit(timeout_s)):
            return True
        with self._lock:
            if not self._is_set:
                self._waiting.remove(wake)
            return self._is_set


class Thread:
    """A thread that runs target once.

    Args:
        target: what it raises is printed as an exception that nobody could handle.
    """

    def __init__(self, target: Callable[..., object], *arguments: object) -> None:
        self._target = target
        self._arguments = arguments
        self._runs = Lock()  # locked while it does

    def start(self) -> None:
        """Begin; once.

        Raises:
            RuntimeError: the system has no more threads.
        """
        self._runs.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self._runs.release()
            raise

    def is_alive(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._runs.locked()

    def join(self, timeout_s: float | None = None) -> None:
        """Return once it has ended, or after timeout_s seconds."""
        if self._runs.acquire(timeout=_limit(timeout_s)):
            self._runs.release()

    def _run(self) -> None:
        try:
            self._target(*self._arguments)
        finally:
            self._runs.release()


def _limit(timeout_s: float | None) -> float:
    # What a lock takes: -1 for no limit.
    return -1 if timeout_s is None else min(max(0.0, timeout_s), TIMEOUT_MAX)
