"""Load a configuration: sources to a checked Document, or every problem at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from collector.config.decode import decode, describe, show_key
from collector.config.document import (
    ComponentEntry,
    Document,
    Metrics,
    Pipeline,
    PipelineID,
    Prometheus,
    Service,
    Telemetry,
)
from collector.config.expand import UNKNOWN, Expanded, plain
from collector.config.pipelines import check_pipelines, without_effect
from collector.config.resolve import Resolved, resolve
from collector.config.sections import MetricsSection, PipelineSection, ServiceSection
from collector.config.sources import SECTIONS
from collector.config.surroundings import Address, addresses, clashes, unreadable
from collector.config.syntax import join
from collector.config.values import nearest
from collector.errors import ConfigError, Problem, explain, place_of
from collector.ids import ComponentID, InvalidID, Kind, Signal
from collector.lean import TYPE_CHECKING, Any, NamedTuple
from collector.registry import Unavailable, UnknownType

if TYPE_CHECKING:
    from collector.registry import Registry


def load(
    sources: Sequence[str],
    sets: Sequence[str],
    registry: Registry,
    environ: Mapping[str, str] = os.environ,
    *,
    is_to_run: bool = False,
) -> Document:
    """Return the configuration that sources and sets give; opens nothing but files.

    Args:
        is_to_run: on this machine: the certificates that it names are read too.

    Raises:
        ConfigError: with every problem found.
    """
    return build(resolve(sources, sets, environ), registry, is_to_run=is_to_run)


def build(resolved: Resolved, registry: Registry, *, is_to_run: bool = False) -> Document:
    """Return the Document of a resolved configuration; see `load`.

    Raises:
        ConfigError: with every problem found.
    """
    return _Build(resolved, registry).run(is_to_run=is_to_run)


class _Doubt(NamedTuple):
    """A component that could not be decoded."""

    kind: Kind
    id: ComponentID
    problems: tuple[Problem, ...]


class _Build:
    def __init__(self, resolved: Resolved, registry: Registry) -> None:
        self._values = resolved.values
        self._locate = resolved.places.locate
        self._registry = registry
        self._empty = resolved.empty
        self._notes = resolved.notes
        self._problems = list(resolved.problems)
        self._warnings = list(resolved.warnings)
        # Ids as configured, whether or not they could be decoded: a reference to a faulty one is no second problem.
        self._known: dict[Kind, set[ComponentID]] = {}
        # Ids as they were probably meant to be: nor is a reference to one whose type is misspelt in its section.
        self._meant: set[tuple[Kind, ComponentID]] = set()
        self._doubts: list[_Doubt] = []

    def run(self, *, is_to_run: bool) -> Document:
        if not self._values:
            raise ConfigError([Problem(name, "empty configuration file") for name in self._empty or ("",)])
        self._warnings += [f"{name}: empty configuration file: it changes nothing" for name in self._empty]
        for key in self._values:
            if key not in SECTIONS:
                word = nearest(key, SECTIONS)
                advice = f"; did you mean {word!r}?" if word else f"; valid keys: {', '.join(SECTIONS)}"
                self._fail("", f"has invalid keys: {show_key(key)}{advice}", key)
        components = {kind: self._components(kind) for kind in Kind}
        self._check_sections()
        n_before = len(self._problems)
        service = self._service(components)
        used = _used(service) if len(self._problems) == n_before else None
        self._settle(used)
        if used is not None:
            self._check_surroundings(components, used, service, is_to_run=is_to_run)
        if self._problems or used is None:
            raise ConfigError(self._problems)
        self._warn_of_components(components, used)
        for problem in without_effect(service.pipelines, components):
            self._warn(problem.path, problem.message)
        return Document(
            receivers=components[Kind.RECEIVER],
            processors=components[Kind.PROCESSOR],
            exporters=components[Kind.EXPORTER],
            connectors=components[Kind.CONNECTOR],
            extensions=components[Kind.EXTENSION],
            service=service,
            values=plain(self._values),
            warnings=tuple(self._warnings),
            notes=tuple(self._notes),
        )

    def _fail(self, path: str, message: str, place: str = "") -> None:
        self._problems.append(Problem(path, message + self._locate(place or path)))

    def _warn(self, path: str, message: str) -> None:
        self._warnings.append(f"{path}: {message}{self._locate(path)}")

    def _components(self, kind: Kind) -> dict[ComponentID, ComponentEntry]:
        section = self._values.get(kind.value)
        if isinstance(section, Expanded):
            section = section.value
        known = self._known.setdefault(kind, set())
        entries: dict[ComponentID, ComponentEntry] = {}
        if section is None or section is UNKNOWN:
            return entries
        if not isinstance(section, dict):
            self._fail(kind.value, f"expected a map of {kind.value} by id, got {describe(section)}")
            return entries
        for text, value in section.items():
            path = join(kind.value, text)
            try:
                id = ComponentID.parse(text)
            except InvalidID as error:
                self._fail(path, str(error))
                continue
            if id in known:
                self._fail(path, f'duplicate name "{id}" after trimming spaces')
                continue
            known.add(id)
            entry = self._component(kind, id, value, path)
            if isinstance(entry, ComponentEntry):
                entries[id] = entry
            else:
                self._doubts.append(_Doubt(kind, id, entry))
        return entries

    def _component(
        self, kind: Kind, id: ComponentID, value: Any, path: str
    ) -> ComponentEntry | tuple[Problem, ...]:
        """Return the decoded component, or what is wrong with it."""
        try:
            registered = self._registry.find(kind, id.type)
        except UnknownType:
            from collector.config.unknown import explain as explain_type

            found = explain_type(self._registry, kind, id)
            if found.meant is not None:
                self._meant.add((kind, found.meant))
            return (Problem(path, found.message + self._locate(path), found.in_use),)
        except Unavailable as error:
            message = f'{kind.singular} "{id.type}" cannot be loaded: {error}'
            return (Problem(path, message + self._locate(path)),)
        if registered.type != id.type:
            self._warn(path, f'"{id.type}" alias is deprecated; use "{registered.type}" instead')
        try:
            config: Any = decode(registered.factory.config, value, path, self._locate)
        except ConfigError as error:
            return error.problems
        except Exception as error:  # noqa: BLE001 what somebody else's configuration class is made of
            message = f'{kind.singular} "{id.type}" cannot read it: {explain(error)}{place_of(error)}'
            return (Problem(path, message + self._locate(path)),)
        return ComponentEntry(registered.type, registered.factory, config)

    def _settle(self, used: Mapping[Kind, set[ComponentID]] | None) -> None:
        """Tell what is wrong with components: what harms only those that are used is a warning for the others.

        Where there is something else to mend, it is told with all the rest.
        """
        problems = [problem for doubt in self._doubts for problem in doubt.problems]
        is_harmless = used is not None and all(
            id not in used[kind] and all(problem.in_use for problem in found)
            for kind, id, found in self._doubts
        )
        if is_harmless and not self._problems:
            self._warnings += [f"{problem}; nothing uses it, so it is left out" for problem in problems]
        else:
            self._problems += problems

    def _check_sections(self) -> None:
        for kind in (Kind.RECEIVER, Kind.EXPORTER):
            if not self._values.get(kind.value):
                self._fail(kind.value, f"no {kind.singular} configuration specified in config")
        for id in sorted(self._known[Kind.CONNECTOR]):
            for kind in (Kind.RECEIVER, Kind.EXPORTER):
                if id in self._known[kind]:
                    self._fail(
                        f"connectors::{id}",
                        f'ambiguous ID: found both "{id}" {kind.singular} and "{id}" connector; '
                        f'rename one, for example the connector to "{id.type}/connector"',
                    )

    def _service_section(self) -> ServiceSection:
        # Decoded piece by piece, so that a fault in one hides none in the others.
        values = self._values.get("service")
        if isinstance(values, Expanded):
            values = values.value
        pieces = [values]
        if isinstance(values, dict):
            pieces = [{key: value} for key, value in values.items() if key != "pipelines"]
            pipelines = values.get("pipelines")
            if isinstance(pipelines, dict):
                pieces += [{"pipelines": {text: pipeline}} for text, pipeline in pipelines.items()]
            else:
                pieces.append({"pipelines": pipelines})
        decoded: dict[str, Any] = {"pipelines": {}}
        for piece in pieces:
            try:
                section = decode(ServiceSection, piece, "service", self._locate)
            except ConfigError as error:
                self._problems += error.problems
                continue
            for key in piece or ():
                value = getattr(section, key)
                decoded[key] = decoded[key] | value if key == "pipelines" else value
        return ServiceSection(**decoded)

    def _service(self, components: Mapping[Kind, Mapping[ComponentID, ComponentEntry]]) -> Service:
        n_before = len(self._problems)
        section = self._service_section()
        if not section.pipelines and len(self._problems) == n_before:
            self._fail("service::pipelines", "service must have at least one pipeline")
        pipelines: dict[PipelineID, Pipeline] = {}
        for text, pipeline in section.pipelines.items():
            path = join("service::pipelines", text)
            try:
                id = PipelineID.parse(text)
            except InvalidID as error:
                self._fail(path, str(error))
                continue
            if id in pipelines:
                self._fail(path, f'duplicate name "{id}" after trimming spaces')
            pipelines[id] = self._pipeline(pipeline, path, id.signal)
        if len(self._problems) == n_before:
            # Connectors are judged by all pipelines together; a component may be faulty in the same way for several.
            for problem in dict.fromkeys(check_pipelines(pipelines, components)):
                self._fail(problem.path, problem.message)
        telemetry = section.telemetry
        for signal in ("logs", "traces"):
            if getattr(telemetry, signal).processors:
                self._warn(
                    f"service::telemetry::{signal}::processors",
                    f"the collector's own {signal} are not exported: ignored",
                )
        return Service(
            extensions=self._references("service::extensions", section.extensions, Kind.EXTENSION),
            pipelines=pipelines,
            telemetry=Telemetry(
                telemetry.logs,
                self._metrics(telemetry.metrics),
                self._resource(telemetry.resource),
            ),
            shutdown_timeout=section.shutdown_timeout,
        )

    def _metrics(self, metrics: MetricsSection) -> Metrics:
        is_on = metrics.level != "none"
        pulled: list[Prometheus | None] = [Prometheus()] if metrics.readers is None else []
        pushed: list[str] = []
        for index, value in enumerate(metrics.readers or ()):
            from collector.config.readers import Reader

            path = f"service::telemetry::metrics::readers::{index}"
            try:
                reader = decode(Reader, value, path, self._locate)
            except ConfigError as error:
                self._problems += error.problems
                continue
            if reader.periodic is not None:
                pushed.append(path)
            elif reader.pull is None and is_on:
                self._fail(path, "no valid metric reader: expected 'pull' or 'periodic'")
            if reader.pull is not None:
                if pulled:
                    self._fail(path, "only one pull reader is supported")
                pulled.append(reader.pull.exporter.prometheus)
        if not is_on:
            return Metrics(metrics.level, None)
        stand_in = Prometheus()
        instead = "ignored" if pulled else f"scrape {stand_in.endpoint}/metrics instead"
        for path in pushed:
            self._warn(path, f"a periodic reader is not supported yet: {instead}")
        return Metrics(metrics.level, pulled[0] if pulled else stand_in, is_stand_in=not pulled)

    def _resource(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if not values:
            return {}
        from collector.config.resource import decode_resource

        try:
            return decode_resource(values, self._locate)
        except ConfigError as error:
            self._problems += error.problems
            return {}

    def _pipeline(self, section: PipelineSection, path: str, signal: Signal) -> Pipeline:
        for kind, texts in ((Kind.RECEIVER, section.receivers), (Kind.EXPORTER, section.exporters)):
            if not texts:
                self._fail(path, f"must have at least one {kind.singular}")
        return Pipeline(
            self._references(path, section.receivers, Kind.RECEIVER, "receivers", Kind.CONNECTOR, signal),
            self._references(path, section.processors, Kind.PROCESSOR, "processors", None, signal),
            self._references(path, section.exporters, Kind.EXPORTER, "exporters", Kind.CONNECTOR, signal),
        )

    def _references(
        self,
        path: str,
        texts: Iterable[str],
        kind: Kind,
        key: str = "",
        also: Kind | None = None,
        signal: Signal | None = None,
    ) -> tuple[ComponentID, ...]:
        ids: dict[ComponentID, None] = {}
        known = self._known[kind] | (self._known[also] if also else set())
        for index, text in enumerate(texts):
            place = join(join(path, key) if key else path, index)
            try:
                id = ComponentID.parse(text)
            except InvalidID as error:
                self._fail(place, str(error))
                continue
            if id not in known:
                kinds = (kind, also) if also else (kind,)
                if any((each, id) in self._meant for each in kinds):
                    continue
                from collector.config.unknown import advise_on_reference

                advice = advise_on_reference(self._registry, self._known, kinds, id, signal)
                self._fail(path, f'references {kind.singular} "{id}" which is not configured{advice}', place)
            elif id in ids and kind is Kind.PROCESSOR:
                self._fail(path, f'references processor "{id}" multiple times', place)
            elif id in ids:
                self._warn(path, f'references {kind.singular} "{id}" multiple times; once is enough')
            ids[id] = None
        return tuple(ids)

    def _check_surroundings(
        self,
        components: Mapping[Kind, Mapping[ComponentID, ComponentEntry]],
        used: Mapping[Kind, set[ComponentID]],
        service: Service,
        *,
        is_to_run: bool,
    ) -> None:
        parts = [
            (kind, join(kind.value, id), entry.config)
            for kind, entries in components.items()
            for id, entry in entries.items()
            if id in used[kind]
        ]
        found = [
            address
            for kind, path, config in parts
            if kind in (Kind.RECEIVER, Kind.EXTENSION)
            for address in addresses(path, config)
        ]
        metrics = service.telemetry.metrics
        if metrics.prometheus is not None and not metrics.is_stand_in:
            found.append(Address("service::telemetry::metrics::readers", "tcp", metrics.prometheus.endpoint))
        problems = list(clashes(found))
        if is_to_run:
            problems += (problem for _, path, config in parts for problem in unreadable(path, config))
        for problem in problems:
            self._fail(problem.path, problem.message)

    def _warn_of_components(
        self,
        components: Mapping[Kind, Mapping[ComponentID, ComponentEntry]],
        used: Mapping[Kind, set[ComponentID]],
    ) -> None:
        for kind, entries in components.items():
            place = "service::extensions" if kind is Kind.EXTENSION else "any pipeline"
            for id, entry in entries.items():
                path = join(kind.value, id)
                if id not in used[kind]:
                    self._warn(path, f"configured but not listed in {place}: it has no effect")
                elif hasattr(entry.config, "warnings"):
                    for field, message in entry.config.warnings():
                        self._warn(join(path, field) if field else path, message)


def _used(service: Service) -> dict[Kind, set[ComponentID]]:
    """Return what runs of each kind."""
    pipelines = service.pipelines.values()
    receivers = {id for pipeline in pipelines for id in pipeline.receivers}
    exporters = {id for pipeline in pipelines for id in pipeline.exporters}
    return {
        Kind.RECEIVER: receivers,
        Kind.PROCESSOR: {id for pipeline in pipelines for id in pipeline.processors},
        Kind.EXPORTER: exporters,
        Kind.CONNECTOR: receivers | exporters,
        Kind.EXTENSION: set(service.extensions),
    }
