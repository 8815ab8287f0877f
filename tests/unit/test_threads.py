"""Threads and events on `_thread`."""

import subprocess
import sys
from typing import Any

import pytest

from collector import threads
from collector.threads import Event, Thread


class TestEvent:
    """A flag."""

    def test_wakes_all_who_wait(self) -> None:
        """However many they are, and whoever comes later does not wait at all."""
        event, met = Event(), []
        waiting = [Thread(lambda: met.append(event.wait())) for _ in range(3)]
        for each in waiting:
            each.start()
        assert not event.is_set()
        event.set()
        for each in waiting:
            each.join()
        assert [True, True, True] == met
        assert event.is_set()
        assert event.wait(0)

    def test_time_limit_ends_the_wait(self) -> None:
        """Also one that is over already, or longer than a lock can take."""
        event = Event()
        assert not event.wait(0.01)
        assert not event.wait(-1.0)
        event.set()
        event.set()
        assert event.wait(1e300)


class TestThread:
    """A thread."""

    def test_runs_its_target_with_arguments(self) -> None:
        """Once, and join waits for the end of it."""
        done: list[tuple[int, ...]] = []
        thread = Thread(lambda *numbers: done.append(numbers), 1, 2)
        assert not thread.is_alive()
        thread.start()
        thread.join()
        assert not thread.is_alive()
        assert [(1, 2)] == done
        thread.join(0)

    def test_join_gives_up_after_its_time(self) -> None:
        """The thread runs on."""
        gate = Event()
        thread = Thread(gate.wait)
        thread.start()
        thread.join(0.01)
        assert thread.is_alive()
        gate.set()
        thread.join()
        assert not thread.is_alive()

    def test_exception_ends_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is told as one that nobody can handle, and nobody waits for ever."""
        told, is_told = [], Event()

        def tell(unraisable: Any) -> None:
            told.append(unraisable.exc_type)
            is_told.set()

        monkeypatch.setattr(sys, "unraisablehook", tell)
        thread = Thread(int, "x")
        thread.start()
        thread.join()
        assert is_told.wait(60)
        assert [ValueError] == told
        assert not thread.is_alive()

    def test_no_more_threads_is_an_error_each_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It was not started, and may be later."""

        def refuse(_function: object, _arguments: object) -> None:
            raise RuntimeError("can't start new thread")

        thread = Thread(lambda: None)
        with monkeypatch.context() as patch:
            patch.setattr(threads._thread, "start_new_thread", refuse)
            for _ in range(2):
                with pytest.raises(RuntimeError):
                    thread.start()
                assert not thread.is_alive()
        thread.start()
        thread.join()


def test_process_ends_cleanly_with_threading_imported_by_a_thread() -> None:
    """`threading` takes the thread that imports it for the main one; the end of the process must not mind."""
    program = (
        "import sys\n"
        "from collector.threads import Event, Thread\n"
        "assert 'threading' not in sys.modules\n"
        "def work():\n"
        "    import threading\n"
        "    threading.Thread(target=lambda: None).start()\n"
        "thread = Thread(work)\n"
        "thread.start()\n"
        "thread.join()\n"
        "Thread(Event().wait).start()\n"
        "assert 'threading' in sys.modules\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ("", "") == (result.stdout, result.stderr)
