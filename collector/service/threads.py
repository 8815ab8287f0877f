"""Work beside the caller that must be done also where the system grants no more threads."""

from __future__ import annotations

from collections.abc import Callable

from collector.threads import Thread

Wait = Callable[[float | None], bool]
"""Waits at most so many seconds, for ever when None, and tells whether the work is done."""


def begin(work: Callable[..., None], *arguments: object) -> Wait:
    """Do work on a thread of its own, or here and now where none can be had."""
    thread = Thread(work, *arguments)
    try:
        thread.start()
    except RuntimeError:  # a limit of processes, or no memory for its stack
        work(*arguments)
        return lambda _timeout_s: True

    def wait(timeout_s: float | None) -> bool:
        thread.join(timeout_s)
        return not thread.is_alive()

    return wait
