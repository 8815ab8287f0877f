"""Work beside the caller, or in its place where there are no threads."""

from __future__ import annotations

import pytest

from collector.service.threads import begin
from collector.threads import Event, Thread


def test_work_is_done_beside_the_caller() -> None:
    """Whoever waits learns whether it is done."""
    may_end = Event()
    wait = begin(may_end.wait)
    assert not wait(0.0)
    may_end.set()
    assert wait(None)


def test_work_is_done_here_where_no_thread_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of processes does not keep a collector from shutting down."""

    def start(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", start)
    done: list[int] = []
    wait = begin(done.append, 1)
    assert [1] == done
    assert wait(0.0)
