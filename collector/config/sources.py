"""Where configuration text comes from: files, environment variables, the command line itself.

The same locations serve `--config` and `${...}` inside values. Source: OpenTelemetry Collector, confmap providers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from collector.config import syntax
from collector.config.merge import merge
from collector.errors import CollectorError, ConfigError, Problem
from collector.lean import Any, NamedTuple

SCHEMES = ("env", "file", "yaml")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")


class SourceError(CollectorError):
    """A location that cannot be read."""


class Text(NamedTuple):
    """What a location holds.

    Attributes:
        text: YAML, or whatever stands there.
        name: for messages.
        warning: empty when there is none.
    """

    text: str
    name: str
    warning: str = ""


class Layer(NamedTuple):
    """The map that one source holds, and where each path of it was written, as `file.yaml:12`."""

    values: dict[str, Any]
    lines: dict[str, str]


def read(uri: str, default_scheme: str, environ: Mapping[str, str]) -> Text:
    """Return what stands at uri, `scheme:rest` or rest of default_scheme.

    Raises:
        SourceError: there is nothing that can be read.
    """
    match = _SCHEME.match(uri)
    scheme = match[1] if match else default_scheme
    rest = uri[match.end() :] if match else uri
    if scheme == "env":
        return _read_variable(rest, environ)
    if scheme == "file":
        return _read_file(rest)
    if scheme == "yaml":
        return Text(rest, "yaml")
    if scheme in ("http", "https"):
        raise SourceError(
            f'scheme "{scheme}" is not supported yet for uri "{uri}"; fetch the file and name its path'
        )
    message = f'scheme "{scheme}" is not supported for uri "{uri}"'
    if default_scheme == "env" and rest.startswith("-"):
        message += f'; a default is written "env:{uri}"'
    raise SourceError(message)


def _read_variable(rest: str, environ: Mapping[str, str]) -> Text:
    name, has_default, default = rest.partition(":-")
    if not _NAME.match(name):
        raise SourceError(
            f'environment variable "{name}" has invalid name: must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$'
        )
    text = environ.get(name, default)
    unset = name not in environ and not has_default
    return Text(
        text, f"env:{name}", f'configuration references unset environment variable "{name}"' if unset else ""
    )


def _read_file(path: str) -> Text:
    try:
        with open(path, encoding="utf-8-sig") as file:
            return Text(file.read(), path)
    except OSError as error:
        raise SourceError(f"cannot read {path!r}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeError as error:
        raise SourceError(f"cannot read {path!r}: not UTF-8 text") from error
    except ValueError as error:
        raise SourceError(f"cannot read {path!r}: not a path") from error


def read_layer(uri: str, environ: Mapping[str, str] = os.environ) -> Layer:
    """Return what one `--config` names.

    Raises:
        ConfigError: it cannot be read, or is no map.
    """
    try:
        source = read(uri, "file", environ)
    except SourceError as error:
        raise ConfigError([Problem("", str(error))]) from error
    if source.warning:
        raise ConfigError([Problem("", source.warning)])
    try:
        parsed = syntax.parse(source.text)
    except syntax.InvalidYAML as error:
        raise ConfigError([Problem(f"{source.name}:{error.line}", error.message)]) from error
    if parsed.value is None:
        return Layer({}, {})
    if not isinstance(parsed.value, dict):
        raise ConfigError([Problem(f"{source.name}:1", "expected a map of sections such as 'receivers'")])
    values: dict[str, Any] = {}
    for key, value in parsed.value.items():
        values = merge(values, _nest(key.split("::"), value))
    return Layer(values, {path: f"{source.name}:{line}" for path, line in parsed.lines.items()})


def read_set(text: str) -> Layer:
    """Return what one `--set a.b=value` says.

    Raises:
        ConfigError: there is no `=`, or the value is not YAML.
    """
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise ConfigError([Problem("--set", f"missing equal sign: expected key=value, got {text!r}")])
    keys = path.strip().split(".")
    try:
        parsed = syntax.parse(value)
    except syntax.InvalidYAML as error:
        raise ConfigError([Problem(f"--set {path}", error.message)]) from error
    return Layer(_nest(keys, parsed.value), {"::".join(keys): f"--set {path}"})


def _nest(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)
