"""Drop spans that nobody will look at: health checks by name, and very short spans without attributes.

Three signs make a span worth little: it is shorter than `min_duration`, it has no attributes, its name matches one of
`names`. `rules` says which of them drop it: any rule of the list drops (OR), all signs within a rule must hold
(AND). Never dropped: a span with status error, with an exception event, or with links. Ours; the Collector has
no such component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from collector.component import Factory, Settings, Stability
from collector.config.fields import Duration, option, section
from collector.ids import Signal
from collector.native import ops
from collector.telemetry.instruments import DROPPED_ITEMS, Instrument, Sample

SIGNS = {"duration": ops.Sign.SHORT, "attributes": ops.Sign.NO_ATTRIBUTES, "name": ops.Sign.NAME}

HEALTH_CHECKS = (
    "*grpc.health.v1.Health/*",
    "/health",
    "/healthz",
    "/_healthz",
    "/livez",
    "/readyz",
    "/live",
    "/ready",
    "/liveness",
    "/readiness",
    "/ping",
    "/metrics",
    "GET /health",
    "GET /healthz",
    "GET /_healthz",
    "GET /livez",
    "GET /readyz",
    "GET /live",
    "GET /ready",
    "GET /liveness",
    "GET /readiness",
    "GET /ping",
    "GET /metrics",
)

REPARENTED = Instrument(
    "spansieve_processor_reparented_spans", "counter", "Spans that took the parent of a dropped span."
)


@section
class Config:
    """Keys of `low_value_filter`."""

    min_duration: Duration = option(
        Duration(0.001), doc="A span shorter than this shows the sign `duration`.", minimum=0, ours=True
    )
    names: tuple[str, ...] = option(
        HEALTH_CHECKS,
        doc="Glob patterns (`*`, `?`); a span whose whole name matches one shows the sign `name`.",
        ours=True,
    )
    rules: tuple[str, ...] = option(
        ("name", "duration and attributes"),
        doc="Each rule is one or more of `duration`, `attributes`, `name`, joined by `and`; any rule drops.",
        ours=True,
    )
    keep_roots: bool = option(False, doc="Never drop a span without a parent.", ours=True)
    reparent: bool = option(
        True, doc="Children of a dropped span take its parent, within a request.", ours=True
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong across fields."""
        if len(self.rules) > ops.RULES_MAX:
            yield "rules", f"expected at most {ops.RULES_MAX} rules, got {len(self.rules)}"
        for rule in self.rules:
            unknown = [word for word in _words(rule) if word not in SIGNS]
            if unknown or not rule.strip():
                yield "rules", f"expected {', '.join(SIGNS)}, joined by 'and', got {rule!r}"


def _words(rule: str) -> list[str]:
    return [word.strip() for word in rule.split(" and ")]


def _signs(rule: str) -> int:
    signs = 0
    for word in _words(rule):
        signs |= SIGNS[word]
    return signs


class LowValueFilter:
    """The processor: all work is in its op."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._settings = settings
        self._rules = config.rules
        self.op = ops.low_value(
            min_duration_ns=round(config.min_duration * 1e9),
            names=config.names,
            rules=[_signs(rule) for rule in config.rules],
            keep_roots=config.keep_roots,
            reparent=config.reparent,
        )

    def start(self) -> None:
        """Nothing to start."""

    def shutdown(self, deadline_s: float) -> None:
        """Nothing to stop."""

    def samples(self) -> Iterable[Sample]:
        """Return the spans dropped by rule, and those moved."""
        own = ("processor", str(self._settings.id))
        signal = ("otel_signal", Signal.TRACES.value)
        for index, rule in enumerate(self._rules):
            yield Sample(DROPPED_ITEMS, (own, ("rule", rule), signal), self.op.counter(index))
        yield Sample(REPARENTED, (own, signal), self.op.counter(ops.REPARENTED))


factory = Factory(
    config=Config,
    create=LowValueFilter,
    signals=frozenset({Signal.TRACES}),
    stability=Stability.ALPHA,
    example="min_duration: 500us\nkeep_roots: true",
)
