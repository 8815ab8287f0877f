"""Run a collector until it is told to stop.

SIGTERM and SIGINT drain and end with 0. One more within a second is the same wish: wrappers pass on what the whole
group was sent, and `kill` is typed twice. Later it is another one: the process ends at once with 1. SIGHUP loads the
configuration again.

The main thread only ever waits: starting over and shutting down happen on a thread of their own, so that probes,
scrapes and the second signal are answered meanwhile.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Sequence

from collector import __version__
from collector.errors import CollectorError, ConfigError, StartError
from collector.lean import TYPE_CHECKING, signal, suppress
from collector.native.runtime import Runtime, raise_descriptor_limit
from collector.service.build import Host
from collector.service.identity import attributes, make_instance_id
from collector.service.lifecycle import Service
from collector.service.listeners import Listeners
from collector.service.loop import Loop
from collector.service.notify import notify_ready, notify_reloading, notify_stopping
from collector.service.threads import begin
from collector.telemetry import logs

if TYPE_CHECKING:
    from collector.config.document import Document
    from collector.service.admin import HttpServer
    from collector.telemetry.logs import Log

_TIDY_S = 1.0
_SAME_WISH_S = 1.0

# For the faults of a configuration that is read again. Their files may have been removed or replaced by then, so they
# are read soon after the start. Of the standard library nothing is: it would be most of a megabyte.
NEEDED_LATER = (
    "collector.config.decode",
    "collector.config.elsewhere",
    "collector.config.manifests",
    "collector.config.readers",
    "collector.config.resource",
    "collector.config.spelling",
    "collector.config.unknown",
    "collector.config.yaml_faults",
)
_ADMIN_CONNECTIONS = 64  # of operators, probes and scrapers, to each of their pages


def run(
    load: Callable[[], Document],
    *,
    end_now: Callable[[int], object] = os._exit,
    ends_process: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Run what load returns until a signal says stop; return the exit status.

    Args:
        load: reads the configuration; called again on SIGHUP. Raises ConfigError.
        end_now: ends the process without more ado.
        ends_process: nothing comes after it, so signals do nothing any more, instead of what they did before.
        clock: seconds, monotonic.

    Raises:
        ConfigError: from the first load.
    """
    raise_descriptor_limit()
    document = load()
    instance_id = make_instance_id()
    try:
        log = _configure_logs(document, instance_id)
    except OSError as error:
        encoding = document.service.telemetry.logs.encoding
        return _fail(_log_problem(error), logs.configure(encoding=encoding), encoding, ("stderr",))
    with Loop(log, ignores_signals_at_end=ends_process) as loop:
        runtime = Runtime()
        host = Host(
            runtime=runtime,
            loop=loop,
            listeners=Listeners(),
            log=log,
            clock=clock,
            instance_id=instance_id,
            make_server=lambda fd: _make_server(runtime, fd),
        )
        _tidy_later(loop, runtime)
        return _Operator(load, Service(host), loop, host, end_now).run(document)


class _Operator:
    """Turns signals into operations on the service, one at a time, each on a thread of its own."""

    def __init__(
        self,
        load: Callable[[], Document],
        service: Service,
        loop: Loop,
        host: Host,
        end_now: Callable[[int], object],
    ) -> None:
        self._load = load
        self._service = service
        self._host = host
        self._loop = loop
        self._log = host.log
        self._end_now = end_now
        self._is_busy = False
        self._stopping_s: float | None = None
        self._has_stopped = False
        self._wants_reload = False

    def run(self, document: Document) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.on_signal(number, self._stop)
        self._loop.on_signal(signal.SIGHUP, self._reload)
        self._log.info("Starting spansieve...", version=__version__, pid=os.getpid())
        try:
            self._service.start(document)
        except CollectorError as error:
            settings = document.service.telemetry.logs
            return _fail(_text(error), self._log, settings.encoding, settings.output_paths)
        self._log.info("Everything is ready. Begin running and processing data.")
        notify_ready(self._log)
        self._loop.run()
        self._log.info("Shutdown complete.")
        return 0

    def _stop(self) -> None:
        now_s = self._host.clock()
        if self._stopping_s is not None:
            if not self._has_stopped and now_s - self._stopping_s >= _SAME_WISH_S:
                self._log.error("stopped by a second signal; what was not yet sent is lost")
                self._end_now(1)
            return
        self._stopping_s = now_s
        self._log.info("Starting shutdown...")
        notify_stopping(self._log)
        self._service.not_ready()
        if not self._is_busy:
            self._shut_down()

    def _reload(self) -> None:
        if self._stopping_s is not None:
            return
        if self._is_busy:
            self._wants_reload = True
        else:
            self._begin(self._reload_now, self._go_on)

    def _go_on(self) -> None:
        if self._stopping_s is not None:
            self._service.not_ready()  # those that the reload has just started
            self._shut_down()
            return
        notify_ready(self._log)
        if self._wants_reload:
            self._wants_reload = False
            self._begin(self._reload_now, self._go_on)

    def _shut_down(self) -> None:
        self._begin(self._service.shutdown, self._finish)

    def _finish(self) -> None:
        self._has_stopped = True
        self._loop.stop()

    def _begin(self, operation: Callable[[], None], then: Callable[[], None]) -> None:
        self._is_busy = True

        def finish() -> None:
            self._is_busy = False
            then()

        def work() -> None:
            try:
                operation()
            except Exception as error:  # noqa: BLE001 a reload that breaks must not end the collector
                self._log.error("operation failed", operation=operation.__name__, error=repr(error))
            finally:
                self._loop.call_soon(finish)

        begin(work)

    def _reload_now(self) -> None:
        logs.reopen()  # whatever becomes of the rest
        self._log.info("Reloading the configuration...")
        notify_reloading(self._log)
        is_whole = False
        try:
            document = self._load()
            reloaded = self._service.reload(document)
            # The old configuration or the new one may hide it: it is written by whichever does not.
            is_shown = self._log.shows_info()
            if is_shown:
                self._log.info("Configuration reloaded.", **reloaded._asdict())
            is_whole = self._reload_logs(document)
            if not is_shown:
                self._log.info("Configuration reloaded.", **reloaded._asdict())
        except ConfigError as error:
            problems = [str(problem) for problem in error.problems]
            self._log.error("configuration not reloaded; the running one stays", problems=problems)
        except CollectorError as error:
            self._log.error("configuration not reloaded; the running one stays", error=_text(error))
        finally:
            self._service.reloads.note(is_whole)

    def _reload_logs(self, document: Document) -> bool:
        try:
            _configure_logs(document, self._host.instance_id)
        except OSError as error:
            self._log.error("logs are written as before", error=_log_problem(error))
            return False
        return True


def _tidy_later(loop: Loop, runtime: Runtime) -> None:
    """Give back what only the start needed, and load what is needed later, in its place.

    Once all has started, so that the first requests have not had to wait for it.
    """

    def tidy() -> None:
        timer.cancel()
        gc.enable()
        gc.collect()
        for name in NEEDED_LATER:
            with suppress(ImportError):
                __import__(name)
        runtime.release_memory()

    timer = loop.every(_TIDY_S, tidy)


def _configure_logs(document: Document, instance_id: str) -> Log:
    telemetry = document.service.telemetry
    settings = telemetry.logs
    sampling = settings.sampling
    fields = dict(settings.initial_fields)
    # For programs only: it is as long as the rest of a line.
    if settings.encoding == "json" and not settings.disable_zap_resource:
        fields["resource"] = attributes(instance_id, telemetry.resource)
    log = logs.configure(
        settings.level,
        settings.encoding,
        paths=settings.output_paths,
        initial_fields=fields,
        repeats=logs.RepeatFilter(
            tick_s=sampling.tick, initial=sampling.initial, thereafter=sampling.thereafter
        )
        if sampling.enabled
        else None,
    )
    for note in document.notes:
        log.info(note)
    for warning in document.warnings:
        log.warning(str(warning))
    return log


def _make_server(runtime: Runtime, fd: int) -> HttpServer:
    from collector.native.server import Listener, Server

    listener = Listener(
        fd=fd,
        protocol="http",
        is_admin=True,
        max_connections=_ADMIN_CONNECTIONS,
        header_timeout_s=10.0,
        read_timeout_s=30.0,
        write_timeout_s=30.0,
        idle_timeout_s=120.0,
    )
    return Server(runtime, listeners=[listener], receiver=None)


def _text(error: Exception) -> str:
    return error.message if isinstance(error, StartError) else str(error)


def _log_problem(error: OSError) -> str:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return f"service::telemetry::logs::output_paths: cannot write {error.filename!r}: {reason}"


def _fail(text: str, log: Log, encoding: str, paths: Sequence[str]) -> int:
    """Say why it cannot start, to people and in the log; what programs read on a standard stream stays JSON."""
    is_json = encoding == "json"
    if is_json or tuple(paths) != ("stderr",):
        log.fatal("cannot start", error=text)
    if not is_json or {"stderr", "stdout"}.isdisjoint(paths):
        sys.stderr.write(f"Error: {text}\n")
    return 1
