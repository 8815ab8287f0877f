"""Where configuration text comes from: files, environment variables, servers, the command line itself.

The same locations serve `--config` and `${...}` inside values. Source: OpenTelemetry Collector, confmap providers and
resolver.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Callable, Mapping

from collector.config import syntax
from collector.config.headers import basic_authorization, split_user
from collector.config.merge import merge
from collector.config.values import hide_credentials
from collector.errors import CollectorError, ConfigError, InvalidYAML, Problem, reason_of
from collector.ids import Kind, is_identifier
from collector.lean import Any, NamedTuple

SCHEMES = ("env", "file", "http", "https", "yaml")
SECTIONS = (*(kind.value for kind in Kind), "service")

_NO_MARKS = str.maketrans("", "", "+.-")
_MAX_BYTES = 16 * 1024 * 1024
_MAX_FETCH_S = 30.0
_BYTE_ORDER_MARK = "\ufeff"


class SourceError(CollectorError):
    """A location that cannot be read."""


class Text(NamedTuple):
    """What a location holds.

    Attributes:
        text: YAML, or whatever stands there.
        name: for messages.
        warning: empty when there is none.
        is_literal: an empty text is meant as such, and not as null.
    """

    text: str
    name: str
    warning: str = ""
    is_literal: bool = False


class Layer(NamedTuple):
    """The map that one source holds.

    Attributes:
        lines: where each path of it was written, as `file.yaml:12`.
        name: of the source.
        note: what the operator may want to know of how it was read; empty when there is nothing.
    """

    values: dict[str, Any]
    lines: dict[str, str]
    name: str = ""
    note: str = ""


def read(uri: str, default_scheme: str, environ: Mapping[str, str]) -> Text:
    """Return what stands at uri, `scheme:rest` or rest of default_scheme.

    Raises:
        SourceError: there is nothing that can be read.
    """
    scheme, colon, rest = uri.partition(":")
    if not colon or not _is_scheme(scheme):
        if colon and default_scheme == "env":
            raise SourceError(f'invalid uri: "{hide_credentials(uri)}"{_default_advice(uri)}')
        scheme, rest = default_scheme, uri
    if scheme == "env":
        return _read_variable(rest, environ)
    if scheme == "file":
        return _read_file(rest)
    if scheme == "yaml":
        return Text(rest, "yaml")
    if scheme in ("http", "https"):
        return _fetch(uri)
    advice = _default_advice(uri) if default_scheme == "env" else f"; known: {', '.join(SCHEMES)}"
    raise SourceError(f'scheme "{scheme}" is not supported for uri "{hide_credentials(uri)}"{advice}')


def _is_scheme(text: str) -> bool:
    # A letter, then at least one of letters, digits and `+.-`: one alone is a drive.
    return len(text) > 1 and text[0].isalpha() and text.isascii() and text.translate(_NO_MARKS).isalnum()


def _default_advice(uri: str) -> str:
    return (
        f'; a default is written "env:{hide_credentials(uri)}"'
        if ":-" in uri
        else f"; known: {', '.join(SCHEMES)}"
    )


def _read_variable(rest: str, environ: Mapping[str, str]) -> Text:
    name, has_default, default = rest.partition(":-")
    if not is_identifier(name):
        raise SourceError(
            f'environment variable "{name}" has invalid name: must match regex ^[a-zA-Z_][a-zA-Z0-9_]*$'
        )
    if name in environ:
        text = environ[name]
        try:
            text.encode()
        except UnicodeEncodeError as error:  # bytes of others have no characters, only stand-ins
            raise SourceError(f"cannot read 'env:{name}': not UTF-8 text") from error
        return Text(text, f"env:{name}")
    warning = "" if has_default else f'configuration references unset environment variable "{name}"'
    return Text(default, f"env:{name}", warning, is_literal=bool(has_default))


def _read_file(path: str) -> Text:
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"cannot read {path!r}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise SourceError(f"cannot read {path!r}: not a path") from error
    if len(content) > _MAX_BYTES:
        raise SourceError(f"cannot read {path!r}: larger than {_MAX_BYTES} bytes")
    return Text(_decode(content, path), path)


_stdin: list[Text] = []


def _read_stdin() -> Text:
    """Return what stands on standard input, which can be read but once: a reload finds the same text again."""
    if not _stdin:
        content = sys.stdin.buffer.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise SourceError(f"cannot read standard input: larger than {_MAX_BYTES} bytes")
        _stdin.append(Text(_decode(content, "standard input"), "stdin"))
    return _stdin[0]


def _decode(content: bytes, name: str) -> str:
    is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if is_utf16 else "utf-8").removeprefix(_BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(
            f"cannot read {name!r}: not UTF-8 text: byte 0x{content[error.start]:02x} on line {line}"
        ) from error


def _fetch(url: str) -> Text:
    import urllib3  # heavy, and seldom needed

    name = hide_credentials(url)
    try:
        retries = urllib3.Retry(total=None, connect=0, read=0, other=0, redirect=10, status=0)
        with urllib3.PoolManager(retries=retries, timeout=_MAX_FETCH_S) as pool:
            user = split_user(url)[1]
            headers = {"Authorization": basic_authorization(user)} if user else {}
            answer = pool.request("GET", url, headers=headers, preload_content=False)
            content = answer.read(_MAX_BYTES + 1)
    except (urllib3.exceptions.HTTPError, ValueError) as error:
        reason = reason_of(getattr(error, "reason", None) or error)
        raise SourceError(f"unable to download the file via HTTP GET for uri {name!r}: {reason}") from error
    if answer.status != 200:
        raise SourceError(f"fail to download the file from uri {name!r}: HTTP status {answer.status}")
    if len(content) > _MAX_BYTES:
        raise SourceError(f"fail to download the file from uri {name!r}: larger than {_MAX_BYTES} bytes")
    return Text(_decode(content, name), name)


def read_layer(uri: str, environ: Mapping[str, str] = os.environ) -> Layer:
    """Return what one `--config` names.

    Raises:
        ConfigError: it cannot be read, or is no map.
    """
    try:
        source = _read_stdin() if uri == "-" else read(uri, "file", environ)
    except SourceError as error:
        raise ConfigError([Problem("", str(error))]) from error
    if source.warning:
        raise ConfigError([Problem("", source.warning)])

    def place(line: int) -> str:
        return f"{source.name}:{line}"

    parsed, fault = None, ConfigError([])
    try:
        parsed = syntax.parse(source.text)
    except InvalidYAML as error:
        fault = ConfigError([Problem(place(error.line), error.message)])
    if parsed is not None and parsed.value is None:
        return Layer({}, {}, source.name)
    if parsed is None or not is_configuration(parsed.value):
        from collector.config.manifests import read as read_manifest

        found = read_manifest(source.text, place)
        if found is not None:
            note = f"{source.name}: the configuration is {found.what}"
            return _layer(found.value, found.lines, place, source.name, note)
    if parsed is None:
        raise fault
    return _layer(parsed.value, parsed.lines, place, source.name)


def is_configuration(value: Any) -> bool:
    """Tell whether value is a map with a section of a configuration."""
    return isinstance(value, dict) and any(key.partition("::")[0] in SECTIONS for key in value)


def read_set(text: str) -> Layer:
    """Return what one `--set a.b=value` says: the YAML `a::b: value`, as in the Collector.

    Raises:
        ConfigError: there is no `=`, or that is not YAML.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise ConfigError([Problem("--set", f"missing equal sign: expected key=value, got {text!r}")])
    document = f"{path.replace('.', '::').strip()}: {value.strip()}"
    where = f"--set {path.strip()}"
    try:
        parsed = syntax.parse(document)
    except InvalidYAML as error:
        raise ConfigError([Problem(where, error.message)]) from error
    return _layer(parsed.value, parsed.lines, lambda _line: where, "--set")


def _layer(
    value: Any, lines: Mapping[str, int], place: Callable[[int], str], name: str, note: str = ""
) -> Layer:
    if not isinstance(value, dict):
        from collector.config.decode import describe

        problem = f"expected a map of sections such as 'receivers', got {describe(value)}"
        raise ConfigError([Problem(place(1), problem)])
    return Layer(_split(value), {path: place(line) for path, line in lines.items()}, name, note)


def _split(values: dict[str, Any]) -> dict[str, Any]:
    """Return values with each key `a::b` in it, but for those within lists, as the maps that it stands for."""
    split: dict[str, Any] = {}
    for key, value in values.items():
        below = _split(value) if isinstance(value, dict) else value
        for part in reversed(key.split("::")):
            below = {part: below}
        split = merge(split, below)
    return split
