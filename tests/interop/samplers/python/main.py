"""Ask the ratio samplers of OpenTelemetry and Datadog for Python; see ../record.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace


def decider(sdk: str, ratio: float) -> Callable[[int], bool]:
    """Return what says whether a trace id is kept at ratio."""
    if sdk == "ddtrace":
        from ddtrace._trace.sampler import RateSampler

        rate_sampler = RateSampler(ratio)
        return lambda id: rate_sampler.sample(SimpleNamespace(_trace_id_64bits=id & 2**64 - 1))
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    sampler = TraceIdRatioBased(ratio)
    return lambda id: sampler.should_sample(None, id, "").decision.is_sampled()


ratios, *ids = sys.stdin.read().split("\n")[:-1]
for ratio in ratios.split(" "):
    keeps = decider(sys.argv[1], float(ratio))
    print("".join("01"[keeps(int(id, 16))] for id in ids))
