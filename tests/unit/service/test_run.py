"""The process: signals, reloads, exit statuses. The collector is made of stand-ins."""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import collector
from collector.errors import ConfigError, Problem
from collector.service.run import NEEDED_LATER, run
from tests.unit.service.stand_ins import Config, FakeExporter, Part, make_document, make_factory

PIPELINES = {"traces": ("in", "stage", "out")}


class Outside:
    """Somebody who watches the journal and sends signals."""

    def __init__(self, journal: list[str]) -> None:
        self._journal = journal
        self._threads: list[threading.Thread] = []

    def wait_for(self, line: str, times: int = 1) -> None:
        deadline_s = time.monotonic() + 60
        while self._journal.count(line) < times:
            if time.monotonic() > deadline_s:
                raise AssertionError(f"no {line!r} in {self._journal}")
            threading.Event().wait(0.001)

    def send(self, number: signal.Signals) -> None:
        os.kill(os.getpid(), number)

    def does(self, script: Callable[[], None]) -> None:
        def work() -> None:
            try:
                script()
            except BaseException:
                self.send(signal.SIGTERM)
                raise

        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


@pytest.fixture
def outside(journal: list[str]):
    outside = Outside(journal)
    yield outside
    outside.join()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_drains_and_ends_with_0(
    outside: Outside, journal: list[str], capfd: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """Extensions learn first that the end is near; then everything shuts down in order."""

    def script() -> None:
        outside.wait_for("ready watch")
        outside.send(number)

    outside.does(script)
    assert 0 == run(lambda: make_document(PIPELINES, extensions="watch"))
    assert [
        "not ready watch",
        "shutdown in",
        "shutdown stage(traces)",
        "shutdown out(traces)",
        "shutdown watch",
    ] == journal[-5:]
    logged = capfd.readouterr().err
    for event in (
        "Everything is ready. Begin running and processing data.",
        "Starting shutdown...",
        "Shutdown complete.",
    ):
        assert event in logged


def test_signal_drains_also_without_threads(
    outside: Outside, journal: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a limit of processes is reached, the main thread does it itself."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name in ("service", "shutdown"):
            raise RuntimeError("can't start new thread")
        start(thread)

    def script() -> None:
        outside.wait_for("start in")
        monkeypatch.setattr(threading.Thread, "start", refuse)
        outside.send(signal.SIGTERM)

    outside.does(script)
    assert 0 == run(lambda: make_document(PIPELINES))
    assert ["shutdown in", "shutdown stage(traces)", "shutdown out(traces)"] == journal[-3:]


@pytest.mark.parametrize(("pause_s", "codes"), [(0.0, []), (0.99, []), (1.0, [1])])
def test_second_signal_ends_at_once_with_1_unless_it_is_the_same_wish(
    outside: Outside, journal: list[str], pause_s: float, codes: list[int]
) -> None:
    """Although an exporter would still have time to drain; what comes within a second of the first changes nothing."""
    ended = threading.Event()
    ended_with: list[int] = []
    skipped_s = [0.0]

    class Slow(FakeExporter):
        def shutdown(self, deadline_s: float) -> None:
            super().shutdown(deadline_s)
            ended.wait(60)

    def end_now(code: int) -> None:
        ended_with.append(code)
        ended.set()

    def script() -> None:
        outside.wait_for("start in")
        outside.send(signal.SIGTERM)
        outside.wait_for("shutdown out(traces)")
        skipped_s[0] += pause_s
        for number in (signal.SIGINT, signal.SIGTERM):
            outside.send(number)
        if not codes:
            ended.set()

    outside.does(script)
    document = make_document(PIPELINES, factories={"out": make_factory(Slow)})
    start_s = time.monotonic()  # it stands still but for the pause
    assert 0 == run(lambda: document, end_now=end_now, clock=lambda: start_s + skipped_s[0])
    assert codes == ended_with[:1]


@pytest.mark.parametrize("ends_process", [False, True])
def test_signals_are_given_back_or_ignored_at_the_end(outside: Outside, ends_process: bool) -> None:
    """They do what they did before, or nothing where the process is about to end."""

    def script() -> None:
        outside.wait_for("start in")
        outside.send(signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)}
    outside.does(script)
    assert 0 == run(lambda: make_document(PIPELINES), ends_process=ends_process)
    for number, handler in before.items():
        assert (signal.SIG_IGN if ends_process else handler) == signal.signal(number, handler)


def hold_back_a_signal() -> None:
    """Run with a SIGHUP that came before the configuration was read."""
    Part.journal = []
    outside = Outside(Part.journal)

    def load() -> Any:
        loads.append(1)
        if len(loads) == 1:
            outside.send(signal.SIGHUP)
        return make_document(PIPELINES, configs={"out": Config(len(loads))})

    def script() -> None:
        outside.wait_for("start out(traces)", times=2)
        outside.send(signal.SIGTERM)

    loads: list[int] = []
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    outside.does(script)
    assert 0 == run(load)
    assert set() == signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_signal_that_was_held_back_is_obeyed() -> None:
    """It has the configuration read again once all runs. In a process of its own, whose threads all hold it back."""
    program = f"from {__name__} import hold_back_a_signal; hold_back_a_signal()"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=False, timeout=60)
    assert 0 == done.returncode


@pytest.mark.parametrize("levels", [("info", "error"), ("error", "info")])
def test_reload_is_told_by_either_configuration(
    outside: Outside, capfd: pytest.CaptureFixture[str], levels: tuple[str, str]
) -> None:
    """Whatever the log level was or becomes, who sent the signal reads that it was heard, once."""
    documents = []
    for level in levels:
        document = make_document(PIPELINES)
        document.service.telemetry.logs.level = level
        documents.append(document)
    documents[1].service.pipelines.update(make_document({"logs": ("in", "", "out")}).service.pipelines)
    made = iter(documents)

    def script() -> None:
        outside.wait_for("start in")
        outside.send(signal.SIGHUP)
        outside.wait_for("start out(logs)")
        outside.send(signal.SIGTERM)

    outside.does(script)
    assert 0 == run(lambda: next(made))
    assert 1 == capfd.readouterr().err.count("Configuration reloaded.")


def test_hangup_loads_again(outside: Outside, journal: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """The new configuration runs; what it shares with the old one was not restarted."""
    documents = iter([make_document(PIPELINES), make_document({**PIPELINES, "logs": ("in", "", "out")})])

    def script() -> None:
        outside.wait_for("start in")
        outside.send(signal.SIGHUP)
        outside.wait_for("start out(logs)")
        outside.send(signal.SIGTERM)

    outside.does(script)
    assert 0 == run(lambda: next(documents))
    assert 1 == journal.count("start in")
    assert "shutdown out(logs)" in journal
    assert "Configuration reloaded." in capfd.readouterr().err


def test_broken_file_leaves_all_running(
    outside: Outside, journal: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """One error line with each problem; the next good file is taken."""

    def load() -> Any:
        loads.append(1)
        if len(loads) == 2:
            journal.append("broken")
            raise ConfigError([Problem("processors::batch::timeout", "expected a duration, got 'fast'")])
        return make_document(PIPELINES, configs={"out": Config(len(loads))})

    loads: list[int] = []

    def script() -> None:
        outside.wait_for("start in")
        outside.send(signal.SIGHUP)
        outside.wait_for("broken")
        assert not [line for line in journal if line.startswith("shutdown")]
        outside.send(signal.SIGHUP)
        outside.wait_for("start out(traces)", times=2)
        outside.send(signal.SIGTERM)

    outside.does(script)
    assert 0 == run(load)
    errors = [line for line in capfd.readouterr().err.splitlines() if '"level": "error"' in line]
    assert 1 == len(errors)
    assert "processors::batch::timeout: expected a duration, got 'fast'" in errors[0]


def test_reload_that_breaks_does_not_end_the_process(
    outside: Outside, journal: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """Not even an error that nobody thought of."""

    def load() -> Any:
        if "start in" not in journal:
            return make_document(PIPELINES)
        journal.append("broken")
        raise ZeroDivisionError

    def script() -> None:
        outside.wait_for("start in")
        outside.send(signal.SIGHUP)
        outside.wait_for("broken")
        outside.send(signal.SIGTERM)

    outside.does(script)
    assert 0 == run(load)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_signal_during_a_reload_stops_after_it(outside: Outside, journal: list[str]) -> None:
    """The reload in progress finishes, then the collector that it made shuts down."""
    go_on = threading.Event()

    def load() -> Any:
        if "start in" not in journal:
            return make_document(PIPELINES, extensions="watch")
        journal.append("loading")
        assert go_on.wait(60)
        return make_document(PIPELINES, extensions="watch watch/2", configs={"out": Config(1)})

    def script() -> None:
        outside.wait_for("ready watch")
        outside.send(signal.SIGHUP)
        outside.wait_for("loading")
        outside.send(signal.SIGTERM)
        outside.wait_for("not ready watch")
        go_on.set()

    outside.does(script)
    assert 0 == run(load)
    assert 2 == journal.count("start out(traces)") == journal.count("shutdown out(traces)")
    assert journal.index("ready watch/2") < journal.index("not ready watch/2")


def test_component_that_cannot_start_ends_with_1(
    journal: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The Collector's words on standard error, and nothing left running."""
    document = make_document(PIPELINES, configs={"in": Config(fails=True)})
    document.service.telemetry.logs.encoding = "console"
    assert 1 == run(lambda: document)
    last = capfd.readouterr().err.splitlines()[-1]
    assert (
        'Error: cannot start pipelines: failed to start "in" receiver: '
        "listen tcp 127.0.0.1:1: bind: permission denied" == last
    )
    assert "shutdown out(traces)" in journal


@pytest.mark.parametrize(
    ("encoding", "paths", "in_log", "to_people"),
    [
        ("console", ["stderr"], False, True),
        ("console", ["log"], True, True),
        ("json", ["log"], True, True),
        ("json", ["stderr"], True, False),
        ("json", ["stdout", "log"], True, False),
    ],
)
def test_failed_start_is_told_in_the_log(
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
    encoding: str,
    paths: list[str],
    in_log: bool,
    to_people: bool,
) -> None:
    """Where programs read a standard stream, each line of it is JSON, the last one too."""
    document = make_document(PIPELINES, configs={"in": Config(fails=True)})
    settings = document.service.telemetry.logs
    settings.encoding = encoding
    settings.output_paths = tuple(path if path[:3] == "std" else str(tmp_path / path) for path in paths)
    assert 1 == run(lambda: document)
    said = capfd.readouterr()
    assert to_people == ("Error: cannot start pipelines: " in said.err)
    logged = (tmp_path / "log").read_text() if "log" in paths else said.out + said.err
    assert in_log == ("fatal" in logged.splitlines()[-1])
    if encoding == "json":
        lines = [json.loads(line) for line in (logged if "log" in paths else said.err).splitlines()]
        assert lines[-1]["error"].startswith("cannot start pipelines: ")


@pytest.mark.parametrize("is_abstract", [False, True])
def test_manager_of_services_is_notified(
    outside: Outside, journal: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_abstract: bool
) -> None:
    """systemd learns when requests are taken, when a reload begins and has ended, well or not, and of the end."""
    path = f"\0{tmp_path}" if is_abstract else str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path.replace("\0", "@"))
    told: list[str] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(60)

        def load() -> Any:
            if told:
                raise ConfigError([Problem("", "broken")])
            return make_document(PIPELINES)

        def script() -> None:
            for number in (None, signal.SIGHUP, None, signal.SIGTERM):
                if number is not None:
                    outside.send(number)
                told.append(manager.recv(100).decode())

        outside.does(script)
        assert 0 == run(load)
    assert ["READY=1", "READY=1", "STOPPING=1"] == [told[0], *told[2:]]
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", told[1])


def test_manager_that_is_gone_stops_nothing(
    outside: Outside, journal: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is told in the log."""
    monkeypatch.setenv("NOTIFY_SOCKET", "/nonexistent/notify")

    def script() -> None:
        outside.wait_for("start in")
        outside.send(signal.SIGTERM)

    outside.does(script)
    assert 0 == run(lambda: make_document(PIPELINES))
    assert "cannot notify the manager of services" in capfd.readouterr().err


def test_broken_configuration_is_for_the_caller(journal: list[str]) -> None:
    """Before anything is made."""

    def load() -> Any:
        raise ConfigError([Problem("exporters::otlp", "unknown key 'endpiont'")])

    with pytest.raises(ConfigError):
        run(load)
    assert [] == journal


def test_log_file_that_cannot_be_opened_ends_with_1(
    capfd: pytest.CaptureFixture[str], journal: list[str]
) -> None:
    """A collector whose logs go nowhere does not start."""
    document = make_document(PIPELINES)
    document.service.telemetry.logs.encoding = "console"
    document.service.telemetry.logs.output_paths = ("/nonexistent/log",)
    assert 1 == run(lambda: document)
    assert capfd.readouterr().err == (
        "Error: service::telemetry::logs::output_paths: cannot write '/nonexistent/log': "
        "no such file or directory\n"
    )
    assert [] == journal


# Imported in functions, and no part of what a reload with faults needs.
ELSEWHERE = {
    "collector.native.server": "when the metrics page is started",
    "collector.native.table": "with numpy, for the first request of a processor in numpy",
    "collector.native.table_worker": "when a processor in numpy is started",
    "collector.native.tls": "when a component with TLS is started",
    "collector.config.gates": "for an option of the command line",
}


_OF_COMMANDS = {"redact", "reference", "schema"}


def test_what_a_fault_needs_is_loaded_before_it_comes() -> None:
    """Every module that is imported late where configurations are read and run is known, and why."""
    folder = Path(collector.__file__).parent
    late = set()
    for path in (path for part in ("config", "service") for path in (folder / part).glob("*.py")):
        if path.stem in _OF_COMMANDS:
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                late |= {
                    name
                    for node in ast.walk(function)
                    for name in (
                        [node.module or ""]
                        if isinstance(node, ast.ImportFrom)
                        else [alias.name for alias in node.names]
                        if isinstance(node, ast.Import)
                        else []
                    )
                }
    late = {name for name in late if name.startswith("collector.")}
    assert set() == late - set(NEEDED_LATER) - set(ELSEWHERE)
