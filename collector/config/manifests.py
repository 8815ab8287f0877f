"""A configuration inside something else: read out of a Kubernetes manifest, or told where it lies.

Loaded only for text that is no configuration by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from collector.config import syntax
from collector.config.sources import SECTIONS, is_configuration
from collector.config.syntax import join
from collector.errors import ConfigError, InvalidYAML, Problem
from collector.lean import Any, NamedTuple, pattern

_TEMPLATE = pattern(r"\{\{.*\}\}|\{%.*%\}")
_ENVIRONMENT = pattern(r"(?:export\s+)?[A-Za-z_][A-Za-z0-9_]*=")
_KEYS_OF_VALUES = {"mode", "image", "presets", "replicaCount", "ports", "command"}
_MOST_LEVELS = 8


class Found(NamedTuple):
    """A configuration inside a text.

    Attributes:
        what: the thing that it lies in, and where.
        lines: of the paths in it, in the whole text.
    """

    what: str
    value: dict[str, Any]
    lines: dict[str, int]


def read(text: str, place: Callable[[int], str]) -> Found | None:
    """Return the configuration in the manifests that text is; None when text is something else, of which no word helps.

    Args:
        place: gives the place of a line.

    Raises:
        ConfigError: it holds none, or several, or is a thing that must be turned into a configuration first.
    """
    if _is_environment(text):
        raise _refused(
            place(1),
            "these are environment variables, not a configuration: set them before the start, for example by"
            " 'set -a; . FILE; set +a', and name a variable as ${env:NAME} in the configuration",
        )
    try:
        documents = list(syntax.parse_all(text))
    except InvalidYAML as error:
        _check_template(text, place, error)
        return None
    resources = [
        (resource, path, document.lines)
        for document in documents
        for resource, path in _resources(document.value, "")
    ]
    if resources:
        return _only(resources, text, place)
    if len(documents) == 1:
        _check_template(text, place)
        where = list(_inside(documents[0].value, "", 0))
        if where:
            raise _refused(
                place(documents[0].lines[where[0]]),
                f"not a configuration itself: one lies under {', '.join(where)}; write that into a file of its own"
                + _values_advice(documents[0].value),
            )
    return None


def _refused(where: str, message: str) -> ConfigError:
    return ConfigError([Problem(where, message)])


def _is_environment(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return bool(lines) and all(map(_ENVIRONMENT.match, lines))


def _check_template(text: str, place: Callable[[int], str], error: InvalidYAML | None = None) -> None:
    """Say that text, which cannot be read, is a template, if it is one."""
    for number, line in enumerate(text.splitlines(), 1):
        if _TEMPLATE.search(line.partition(" #")[0]) and not line.lstrip().startswith("#"):
            reason = f" ({error.message}, line {error.line})" if error is not None else ""
            raise _refused(
                place(number),
                f"a template, of Helm for example, is no configuration before it is rendered{reason}:"
                " 'helm template CHART > FILE', and give FILE",
            )


def _values_advice(value: dict[str, Any]) -> str:
    if "config" not in value or not value.keys() & _KEYS_OF_VALUES:
        return ""
    return "; these look like values of a Helm chart, which adds to it: 'helm template CHART' shows the whole"


def _resources(value: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the Kubernetes resources that value is, or is a list of, with their paths."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str) or "apiVersion" not in value:
        return
    if isinstance(value.get("items"), list):
        for index, item in enumerate(value["items"]):
            yield from _resources(item, join(join(path, "items"), index))
    else:
        yield value, path


def _only(
    resources: list[tuple[dict[str, Any], str, dict[str, int]]], text: str, place: Callable[[int], str]
) -> Found:
    found = [
        each
        for resource, path, lines in resources
        for each in _in_resource(resource, path, lines, text, place)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        several = "; ".join(each.what for each in found)
        raise _refused(
            place(1), f"holds several configurations: write the one to run into a file of its own: {several}"
        )
    kinds = ", ".join(dict.fromkeys(str(resource["kind"]) for resource, _, _ in resources))
    raise _refused(
        place(1),
        f"a Kubernetes manifest ({kinds}) without a configuration: one lies in a ConfigMap's data or an"
        " OpenTelemetryCollector's spec::config",
    )


def _in_resource(
    resource: dict[str, Any], path: str, lines: dict[str, int], text: str, place: Callable[[int], str]
) -> Iterator[Found]:
    kind = resource["kind"]
    metadata = resource.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    for below, value in _candidates(kind, resource):
        whole = join(path, below)
        what = f"{below} of the Kubernetes {kind}{f' {name}' if name else ''}"
        if is_configuration(value):
            inner = {
                key[len(whole) + 2 :]: line for key, line in lines.items() if key.startswith(f"{whole}::")
            }
            yield Found(what, value, inner)
        elif isinstance(value, str):
            # The text of a block begins on the line below its key.
            first = lines[whole]
            try:
                parsed = syntax.parse(value)
            except InvalidYAML as error:
                if any(f"{section}:" in value for section in SECTIONS):
                    _check_template(text, place, error)
                    raise _refused(place(first + error.line), error.message) from error
                continue
            if is_configuration(parsed.value):
                yield Found(what, parsed.value, {key: first + line for key, line in parsed.lines.items()})


def _candidates(kind: str, resource: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if kind == "OpenTelemetryCollector":
        spec = resource.get("spec")
        if isinstance(spec, dict) and "config" in spec:
            yield "spec::config", spec["config"]
    for key in {"ConfigMap": ("data",), "Secret": ("stringData",)}.get(kind, ()):
        data = resource.get(key)
        if isinstance(data, dict):
            for name, value in data.items():
                yield f"{key}::{name}", value


def _inside(value: Any, path: str, depth: int) -> Iterator[str]:
    """Yield the paths of whole configurations below value."""
    if depth > _MOST_LEVELS or not isinstance(value, dict):
        return
    for key, item in value.items():
        below = join(path, key)
        inner = _parsed(item) if isinstance(item, str) and "\n" in item else item
        if isinstance(inner, dict) and "service" in inner and inner.keys() & {"receivers", "exporters"}:
            yield below
        else:
            yield from _inside(item, below, depth + 1)


def _parsed(text: str) -> Any:
    try:
        return syntax.parse(text).value
    except InvalidYAML:
        return None
