"""From `--config` and `--set` to one map of values, with the place of each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from collector.config.expand import Expander
from collector.config.merge import merge
from collector.config.sources import read, read_layer, read_set
from collector.errors import ConfigError, Problem
from collector.lean import Any, NamedTuple


class Places:
    """Where each path was written."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._references: dict[str, list[str]] = {}

    def add(self, lines: Mapping[str, str]) -> None:
        """Learn the lines of one more source."""
        self._lines.update(lines)

    def expanded(self, references: Mapping[str, list[str]]) -> None:
        """Learn which paths hold references."""
        self._references.update(references)

    def locate(self, path: str) -> str:
        """Return ` (file.yaml:12)` for path or the nearest that holds it; empty when nothing is known."""
        keys = path.split("::") if path else []
        line, references = "", []
        for n_keys in range(1, len(keys) + 1):
            above = "::".join(keys[:n_keys])
            line = self._lines.get(above, line)
            if above in self._references:
                # What lies below was written where the reference leads to.
                references = self._references[above]
                break
        where = [word for word in dict.fromkeys((line, *references)) if word]
        return f" ({', '.join(where)})" if where else ""


class Resolved(NamedTuple):
    """A configuration before anything in it was understood.

    Attributes:
        values: references replaced, with `Expanded` where one gave a whole value.
        problems: of references.
        empty: the names of sources that hold nothing.
        notes: what the operator may want to know of how sources were read.
    """

    values: dict[str, Any]
    places: Places
    problems: list[Problem]
    warnings: list[str]
    empty: list[str]
    notes: list[str]


def resolve(sources: Sequence[str], sets: Sequence[str], environ: Mapping[str, str] = os.environ) -> Resolved:
    """Return what sources, each over the one before, and then sets say.

    Raises:
        ConfigError: a source cannot be read.
    """
    if not sources:
        raise ConfigError([Problem("", "at least one config flag must be provided: --config FILE")])
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    places = Places()
    empty: list[str] = []
    notes: list[str] = []
    for read_one, arguments in ((lambda uri: read_layer(uri, environ), sources), (read_set, sets)):
        for argument in arguments:
            try:
                layer = read_one(argument)
            except ConfigError as error:
                problems += error.problems
                continue
            values = merge(values, layer.values)
            places.add(layer.lines)
            empty += [] if layer.values else [layer.name]
            notes += [layer.note] if layer.note else []
    if problems:
        raise ConfigError(problems)
    expander = Expander(lambda uri: read(uri, "env", environ))
    values = expander.expand(values)
    places.expanded(expander.references)
    located = [Problem(each.path, each.message + places.locate(each.path)) for each in expander.problems]
    warnings = [f"{each}{places.locate(each.path)}" for each in expander.warnings]
    return Resolved(values, places, located, warnings, empty, notes)
