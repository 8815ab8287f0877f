"""`spansieve --config FILE`: run until a signal ends it."""

from __future__ import annotations

from collector.cli import Options
from collector.cli.output import accepts_feature_gates, fail
from collector.config.load import load
from collector.errors import ConfigError
from collector.registry import Registry


def run(options: Options) -> int:
    """Run the service and return the exit code; a faulty configuration opens no socket."""
    from collector.service.run import run as serve  # the data plane is loaded with it

    if not accepts_feature_gates(options):
        return 1
    registry = Registry()
    try:
        return serve(lambda: load(options.configs, options.sets, registry), ends_process=True)
    except ConfigError as error:
        return fail(error)
