"""`spansieve --config FILE`: run until a signal ends it."""

from __future__ import annotations

from functools import partial

from collector.cli import Options
from collector.cli.output import fail, note_feature_gates
from collector.config.load import load
from collector.errors import ConfigError
from collector.registry import Registry


def run(options: Options) -> int:
    """Run the service and return the exit code; a faulty configuration opens no socket."""
    from collector.service.run import run as serve  # the data plane is loaded with it

    note_feature_gates(options)
    try:
        return serve(partial(load, options.configs, options.sets, Registry()))
    except ConfigError as error:
        return fail(error)
