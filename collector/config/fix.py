"""Bring an old configuration up to date in its text: what is not renamed, moved or removed stays as it was written.

Each rule looks at the whole text anew, so that one may go on where another has stopped. PyYAML says where things stand;
it is loaded for this only. Source: change logs of the OpenTelemetry Collector.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import yaml

from collector.config.values import split_address
from collector.ids import Kind
from collector.lean import Any, NamedTuple

RENAMED: Mapping[tuple[Kind, str], str] = {
    (Kind.EXPORTER, "logging"): "debug",
    (Kind.EXPORTER, "otlp"): "otlp_grpc",
    (Kind.EXPORTER, "otlphttp"): "otlp_http",
    (Kind.PROCESSOR, "metricstransform"): "metrics_transform",
}
REMOVED: Mapping[tuple[Kind, str], str] = {
    (Kind.EXTENSION, "memory_ballast"): "the Collector has it no more",
    (Kind.PROCESSOR, "queued_retry"): "exporters have sending_queue and retry_on_failure",
}
_VERBOSITY = {"debug": "detailed", "info": "normal", "warn": "basic", "error": "basic"}
_TLS_KEYS = ("insecure", "insecure_skip_verify", "ca_file", "cert_file", "key_file", "server_name_override")
_CORS_KEYS = {"cors_allowed_origins": "allowed_origins", "cors_allowed_headers": "allowed_headers"}
_REFERENCES = {Kind.RECEIVER: "receivers", Kind.PROCESSOR: "processors", Kind.EXPORTER: "exporters"}
_MOST_ROUNDS = 1000
_PLAIN = re.compile(r"[A-Za-z0-9_./$][A-Za-z0-9_./${}:-]*\Z")


class Fixed(NamedTuple):
    """What became of a text.

    Attributes:
        done: what was changed, one sentence each.
        left: what is old and could not be changed, one sentence each.
    """

    text: str
    done: tuple[str, ...]
    left: tuple[str, ...]


class _Edit(NamedTuple):
    """Put text in the place of what stands from start to end."""

    start: int
    end: int
    text: str


class _Mend(NamedTuple):
    """One change; no edits: it cannot be made."""

    what: str
    edits: tuple[_Edit, ...] = ()


class _Pair(NamedTuple):
    key: yaml.ScalarNode
    value: yaml.Node


def fix(text: str) -> Fixed:
    """Return text as it should be today.

    Raises:
        yaml.YAMLError: it is no YAML.
    """
    done: list[str] = []
    while len(done) < _MOST_ROUNDS:
        mends = list(_Text(text).mends())
        mend = next((mend for mend in mends if mend.edits), None)
        if mend is None:
            return Fixed(text, tuple(done), tuple(mend.what for mend in mends))
        text = _apply(text, mend.edits)
        done.append(mend.what)
    return Fixed(text, tuple(done), ())


def _apply(text: str, edits: Iterable[_Edit]) -> str:
    line_end = "\r\n" if "\r\n" in text else "\n"
    for edit in sorted(set(edits), reverse=True):
        text = text[: edit.start] + edit.text.replace("\n", line_end) + text[edit.end :]
    return text


class _Text:
    """A text and what stands where in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._root = yaml.compose(text, Loader=yaml.SafeLoader)

    def mends(self) -> Iterator[_Mend]:
        """Yield what is to be changed."""
        yield from self._components()
        for id, config in self._configs(Kind.EXPORTER):
            if id.partition("/")[0] == "debug":
                yield from self._loglevel(f"exporters::{id}", config)
            if id.partition("/")[0] in ("otlp_grpc", "otlp_http"):
                yield from self._gather(f"exporters::{id}", config, {key: key for key in _TLS_KEYS}, "tls")
        for id, config in self._configs(Kind.RECEIVER):
            if id.partition("/")[0] == "otlp":
                http = _get(config, "protocols", "http")
                yield from self._gather(f"receivers::{id}::protocols::http", http, _CORS_KEYS, "cors")
        for kind in (Kind.RECEIVER, Kind.EXPORTER):
            for id, config in self._configs(kind):
                yield from self._tls_settings(f"{kind.value}::{id}", config)
        for id, config in self._configs(Kind.EXTENSION):
            if id.partition("/")[0] == "health_check":
                yield from self._port(f"extensions::{id}", config)
        for id, config in self._configs(Kind.PROCESSOR):
            if id.partition("/")[0] == "memory_limiter":
                yield from self._ballast(f"processors::{id}", config)
        yield from self._address()

    def _configs(self, kind: Kind) -> Iterator[tuple[str, yaml.Node]]:
        for pair in _pairs(_get(self._root, kind.value)):
            yield pair.key.value.strip(), pair.value

    # ------------------------------------------------------------------------------------------ rules

    def _components(self) -> Iterator[_Mend]:
        for kind in Kind:
            ids = [pair.key for pair in _pairs(_get(self._root, kind.value))]
            known = {key.value.strip() for key in ids}
            for key in ids:
                type, slash, name = key.value.strip().partition("/")
                path = f"{kind.value}::{key.value}"
                new = RENAMED.get((kind, type))
                reason = REMOVED.get((kind, type))
                if new is not None and f"{new}{slash}{name}" in known:
                    yield _Mend(f"{path}: cannot be called {new}{slash}{name}, which there is already")
                elif new is not None:
                    places = [key, *self._references_to(kind, key.value.strip())]
                    edits = tuple(self._rename(place, type, new) for place in places)
                    yield _Mend(f"{path}: the {kind.singular} {type} is called {new} today", edits)
                elif reason is not None:
                    pair = next(pair for pair in _pairs(_get(self._root, kind.value)) if pair.key is key)
                    edits = (self._remove_pair(_get(self._root, kind.value), pair),)
                    edits += tuple(self._remove_references(kind, key.value.strip()))
                    yield _Mend(f"{path}: removed: {reason}", edits)

    def _loglevel(self, path: str, config: yaml.Node | None) -> Iterator[_Mend]:
        pair = _find(config, "loglevel")
        if pair is None or not isinstance(pair.value, yaml.ScalarNode):
            return
        verbosity = _VERBOSITY.get(pair.value.value.casefold())
        if _find(config, "verbosity") is not None:
            yield _Mend(f"{path}: loglevel is removed beside verbosity", (self._remove_pair(config, pair),))
        elif verbosity is None:
            yield _Mend(f"{path}: loglevel is called verbosity today, and {pair.value.value!r} is none")
        else:
            yield _Mend(
                f"{path}: loglevel is called verbosity today",
                (
                    self._rename(pair.key, "loglevel", "verbosity"),
                    _Edit(*self._span(pair.value), verbosity),
                ),
            )

    def _gather(
        self, path: str, config: yaml.Node | None, names: Mapping[str, str], section: str
    ) -> Iterator[_Mend]:
        """Move keys into a section of their own."""
        moved = [pair for pair in _pairs(config) if pair.key.value in names]
        if not moved:
            return
        what = f"{path}: {', '.join(pair.key.value for pair in moved)} moved into {section}"
        if _find(config, section) is not None:
            yield _Mend(f"{what}, which there is already")
            return
        inner = [(names[pair.key.value], self._source(pair.value)) for pair in moved]
        if any("\n" in text for _, text in inner):
            yield _Mend(f"{what}: write the lists in one line first")
            return
        first, *others = moved
        edits = [_Edit(self._span(first.key)[0], self._end(first), self._map(first, config, section, inner))]
        edits += [self._remove_pair(config, pair) for pair in others]
        yield _Mend(what, tuple(edits))

    def _tls_settings(self, path: str, node: yaml.Node | None) -> Iterator[_Mend]:
        for pair in _pairs(node):
            if pair.key.value == "tls_settings":
                edit = self._rename(pair.key, "tls_settings", "tls")
                has_both = _find(node, "tls") is not None
                yield _Mend(f"{path}: tls_settings is called tls today", () if has_both else (edit,))
            else:
                yield from self._tls_settings(f"{path}::{pair.key.value}", pair.value)

    def _port(self, path: str, config: yaml.Node | None) -> Iterator[_Mend]:
        pair = _find(config, "port")
        if pair is None or not isinstance(pair.value, yaml.ScalarNode):
            return
        what = f"{path}: port is part of endpoint today"
        if _find(config, "endpoint") is not None:
            yield _Mend(what)
            return
        text = f"endpoint: {_quoted(f'0.0.0.0:{pair.value.value}')}"
        yield _Mend(what, (_Edit(self._span(pair.key)[0], self._end(pair), text),))

    def _ballast(self, path: str, config: yaml.Node | None) -> Iterator[_Mend]:
        pair = _find(config, "ballast_size_mib")
        if pair is not None:
            yield _Mend(f"{path}: ballast_size_mib is removed", (self._remove_pair(config, pair),))

    def _address(self) -> Iterator[_Mend]:
        metrics = _get(self._root, "service", "telemetry", "metrics")
        pair = _find(metrics, "address")
        if pair is None or not isinstance(pair.value, yaml.ScalarNode):
            return
        what = "service::telemetry::metrics::address was replaced by readers"
        host, port = _split(pair.value.value)
        if _find(metrics, "readers") is not None or not port:
            yield _Mend(what)
            return
        exporter = {
            "host": _quoted(host or "0.0.0.0"),
            "port": _quoted(port),
            "without_scope_info": "true",
            "without_type_suffix": "true",
            "without_units": "true",
        }
        start = self._span(pair.key)[0]
        flow = ", ".join(f"{name}: {value}" for name, value in exporter.items())
        if not _is_flow(metrics):
            indent = " " * self._column(start)
            lines = ["readers:", "  - pull:", "      exporter:", "        prometheus:"]
            lines += [f"          {name}: {value}" for name, value in exporter.items()]
            text = f"\n{indent}".join(lines)
        else:
            text = f"readers: [{{pull: {{exporter: {{prometheus: {{{flow}}}}}}}}}]"
        yield _Mend(what, (_Edit(start, self._end(pair), text),))

    # ------------------------------------------------------------------------------------- references

    def _lists(self, kind: Kind) -> Iterator[yaml.SequenceNode]:
        if kind is Kind.EXTENSION:
            lists = [_get(self._root, "service", "extensions")]
        else:
            pipelines = _pairs(_get(self._root, "service", "pipelines"))
            keys = [_REFERENCES[kind]] if kind in _REFERENCES else ["receivers", "exporters"]
            lists = [_get(pipeline.value, key) for pipeline in pipelines for key in keys]
        yield from (node for node in lists if isinstance(node, yaml.SequenceNode))

    def _references_to(self, kind: Kind, id: str) -> Iterator[yaml.ScalarNode]:
        for node in self._lists(kind):
            for item in node.value:
                if isinstance(item, yaml.ScalarNode) and item.value.strip() == id:
                    yield item

    def _remove_references(self, kind: Kind, id: str) -> Iterator[_Edit]:
        for node in self._lists(kind):
            for item in self._references_to(kind, id):
                if any(item is other for other in node.value):
                    yield self._remove_item(node, item)

    # ------------------------------------------------------------------------------------------ text

    def _span(self, node: yaml.Node) -> tuple[int, int]:
        return node.start_mark.index, _end_of(node)

    def _source(self, node: yaml.Node) -> str:
        start, end = self._span(node)
        return self._text[start:end]

    def _end(self, pair: _Pair) -> int:
        return max(self._span(pair.key)[1], _end_of(pair.value))

    def _column(self, index: int) -> int:
        return index - (self._text.rfind("\n", 0, index) + 1)

    def _rename(self, node: yaml.ScalarNode, old: str, new: str) -> _Edit:
        start, end = self._span(node)
        return _Edit(start, end, self._text[start:end].replace(old, new, 1))

    def _map(
        self, pair: _Pair, around: yaml.Node | None, section: str, inner: Iterable[tuple[str, str]]
    ) -> str:
        texts = [f"{name}: {text}" for name, text in inner]
        if _is_flow(around):
            return f"{section}: {{{', '.join(texts)}}}"
        indent = "\n" + " " * (self._column(self._span(pair.key)[0]) + 2)
        return f"{section}:{indent}{indent.join(texts)}"

    def _remove_pair(self, around: yaml.Node | None, pair: _Pair) -> _Edit:
        return self._remove(around, self._span(pair.key)[0], self._end(pair))

    def _remove_item(self, around: yaml.SequenceNode, item: yaml.Node) -> _Edit:
        start, end = self._span(item)
        if not _is_flow(around):
            start = self._text.rfind("-", 0, start)
        return self._remove(around, start, end)

    def _remove(self, around: yaml.Node | None, start: int, end: int) -> _Edit:
        """Return the edit that removes an entry: of a block its lines, of a flow what stands between commas."""
        text = self._text
        if _is_flow(around):
            behind = re.compile(r"\s*,[ \t]*").match(text, end)
            if behind:
                return _Edit(start, behind.end(), "")
            before = re.compile(r"(?s),\s*\Z").search(text[:start])
            return _Edit(before.start() if before else start, end, "")
        line = text.rfind("\n", 0, start) + 1
        next_line = text.find("\n", end)
        if text[line:start].strip():  # behind a `- `: the line goes on without it
            return _Edit(start, end, "")
        return _Edit(line, len(text) if next_line < 0 else next_line + 1, "")


def _is_flow(node: yaml.Node | None) -> bool:
    """Tell whether node is a map or list in braces or brackets."""
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def _pairs(node: yaml.Node | None) -> list[_Pair]:
    """Return the entries of a map, but for those whose key is no text."""
    if not isinstance(node, yaml.MappingNode):
        return []
    return [_Pair(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _find(node: yaml.Node | None, name: str) -> _Pair | None:
    return next((pair for pair in _pairs(node) if pair.key.value == name), None)


def _get(node: yaml.Node | None, *names: str) -> Any:
    for name in names:
        pair = _find(node, name)
        node = pair.value if pair is not None else None
    return node


def _end_of(node: yaml.Node) -> int:
    """Return where the last character of node is behind; a block ends for the parser where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return max(map(_end_of, last)) if isinstance(last, tuple) else _end_of(last)
    return int(node.end_mark.index)


def _split(address: str) -> tuple[str, str]:
    """Return host and port of an address, either of which may be a reference; no port: there is none to be told."""
    try:
        host, number = split_address(address)
    except ValueError:
        found = re.fullmatch(r"(.*):(\d+|\$\{[^{}]*\})", address)
        return (found[1], found[2]) if found else ("", "")
    return host, str(number)


def _quoted(text: str) -> str:
    return text if _PLAIN.match(text) and "{" not in text else f'"{text}"'
