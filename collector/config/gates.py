"""The Collector's feature gates: a command line made for it is understood, and a misspelt gate is told.

None has an effect here. Imported only by command lines that name one. Source: OpenTelemetry Collector, `featuregate`,
of a build with the components that are here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collector.config.values import nearest
from collector.errors import CollectorError
from collector.lean import NamedTuple


class UnknownGate(CollectorError):
    """No gate has this id, or it cannot be switched so."""


class Gate(NamedTuple):
    """A feature of the Collector that can be switched.

    Attributes:
        is_enabled: by default.
        stage: Alpha, Beta or Stable; one that is Stable cannot be switched off.
        since: version of the Collector.
        description: what it does there, and what is here.
    """

    id: str
    is_enabled: bool
    stage: str
    since: str
    description: str


GATES = {
    gate.id: gate
    for gate in (
        Gate("confmap.enableMergeAppendOption", False, "Alpha", "v0.120.0", "Append lists when sources merge."),
        Gate(
            "exporter.file.nativeCompression", False, "Alpha", "v0.154.0",
            "Write one zstd stream a file instead of one frame a request.",
        ),
        Gate(
            "extension.healthcheck.useComponentStatus", False, "Alpha", "v0.142.0",
            "Tell the state of each component in health_check.",
        ),
        Gate("filter.filterlog.useOTTLBridge", False, "Alpha", "v0.81.0", "Choose log records by OTTL; the same ones."),
        Gate("filter.filtermetric.useOTTLBridge", False, "Alpha", "v0.81.0", "Choose metrics by OTTL; the same ones."),
        Gate("filter.filterspan.useOTTLBridge", False, "Alpha", "v0.79.0", "Choose spans by OTTL; the same ones."),
        Gate("ottl.PanicDuplicateName", True, "Stable", "v0.141.0", "Refuse functions of OTTL with one name."),
        Gate("ottl.contexts.enableOTelColContext", True, "Stable", "v0.147.0", "Know paths of otelcol in OTTL."),
        Gate("ottl.functions.enableLambda", False, "Alpha", "v0.155.0", "Take functions as arguments in OTTL."),
        Gate("ottl.set.allowNil", True, "Beta", "v0.158.0", "Let set of OTTL write nothing."),
        Gate("pdata.useProtoPooling", False, "Alpha", "v0.133.0", "Reuse memory of requests; always so here."),
        Gate(
            "pkg.confighttp.PrioritizeNewKeepalive", True, "Stable", "v0.162.0",
            "Read the section keepalive before the older keys of HTTP.",
        ),
        Gate("pkg.configmiddleware.CustomTCPRouting", False, "Alpha", "v0.164.0", "Let middlewares dial and listen."),
        Gate(
            "pkg.exporterhelper.queueBatchEnabled", False, "Alpha", "v0.158.0", "Batch in sending queues by default."
        ),
        Gate(
            "receiverhelper.newReceiverMetrics", False, "Alpha", "v0.138.0",
            "Count requests that failed behind a receiver apart from those that it refused.",
        ),
        Gate("service.AllowNoPipelines", False, "Alpha", "v0.122.0", "Run without pipelines."),
        Gate(
            "service.partialReload", False, "Alpha", "v0.157.0",
            "Restart only what changed when the configuration is loaded again; always so here.",
        ),
        Gate(
            "service.partialReloadReceivers", True, "Beta", "v0.157.0",
            "Restart only receivers when only they changed; always so here.",
        ),
        Gate("service.profilesSupport", False, "Alpha", "v0.112.0", "Take pipelines of profiles."),
        Gate("telemetry.newPipelineTelemetry", False, "Alpha", "v0.123.0", "Name components in scopes of own metrics."),
    )
}  # fmt: skip


def check(texts: Sequence[str]) -> Iterator[str]:
    """Yield a warning for each gate that `--feature-gates` switches away from its default.

    Args:
        texts: comma-delimited ids, each with `-` in front to switch it off, or `+`.

    Raises:
        UnknownGate: with the Collector's wording.
    """
    for text in texts:
        for word in filter(None, text.split(",")):
            id = word[1:] if word[0] in "+-" else word
            wants = word[0] != "-"
            gate = GATES.get(id)
            complaint = f'invalid argument "{text}" for "--feature-gates" flag: '
            if gate is None:
                near = nearest(id, GATES)
                advice = f"; did you mean {near!r}?" if near else ""
                raise UnknownGate(
                    f'{complaint}no such feature gate "{id}". valid gates: [{" ".join(GATES)}]{advice}'
                )
            if gate.stage == "Stable" and not wants:
                raise UnknownGate(f'{complaint}feature gate "{id}" is stable, can not be disabled')
            if wants is not gate.is_enabled:
                yield f'feature gate "{id}" has no effect in spansieve'
