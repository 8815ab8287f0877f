"""A loop for components under test: it calls back when the test says."""

from __future__ import annotations

from collections.abc import Callable


class Timer:
    """The loop, and the handle of what is registered with it."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def every(self, period_s: float, callback: Callable[[], None]) -> Timer:
        """Remember callback and its period in calls."""
        self.calls.append((period_s, callback))
        return self

    def on_readable(self, fd: int, callback: Callable[[], None]) -> Timer:
        """Refuse: no component that waits for readable files is tested with it."""
        raise AssertionError(fd)

    def cancel(self) -> None:
        """Forget what was registered."""
        self.calls.clear()

    def fire(self) -> None:
        """Let one period of everything pass."""
        for _, callback in list(self.calls):
            callback()
