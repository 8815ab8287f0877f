"""`spansieve --config FILE`: run until a signal ends it."""

from __future__ import annotations

from collector.cli import Options
from collector.cli.output import accepts_feature_gates, fail
from collector.config.document import Document
from collector.config.expand import plain
from collector.config.load import load
from collector.config.resolve import resolve
from collector.errors import ConfigError
from collector.lean import Any
from collector.registry import Registry
from collector.telemetry import logs


def run(options: Options) -> int:
    """Run the service and return the exit code; a faulty configuration opens no socket."""
    from collector.service.run import run as serve  # the data plane is loaded with it

    if not accepts_feature_gates(options):
        return 1
    registry = Registry()
    is_start = True

    def load_now() -> Document:
        # At a reload, certificates that cannot be read just then leave the last ones in use.
        nonlocal is_start
        document = load(options.configs, options.sets, registry, is_to_run=is_start)
        is_start = False
        return document

    try:
        return serve(load_now, ends_process=True)
    except ConfigError as error:
        if not _logs_json(options):
            return fail(error)
        problems = [str(problem) for problem in error.problems]
        logs.configure(encoding="json").fatal("invalid configuration", problems=problems)
        return 1


def _logs_json(options: Options) -> bool:
    """Tell whether a configuration, which is faulty, asks for logs that programs read."""
    try:
        values: Any = plain(resolve(options.configs, options.sets).values)
        return bool(values["service"]["telemetry"]["logs"]["encoding"].lower() == "json")
    except (ConfigError, KeyError, TypeError, AttributeError):
        return False
