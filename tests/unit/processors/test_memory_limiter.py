"""The memory limiter: its checks, its control loop by a fake usage and clock, and the native op's refusal."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.component import Settings
from collector.config.fields import Duration
from collector.errors import RetryableError
from collector.ids import ComponentID, Signal
from collector.lean import replace
from collector.native.pipeline import Discard, Pipeline
from collector.native.runtime import Runtime, Worker
from collector.processors.memory_limiter import Config, MemoryLimiter
from collector.telemetry.logs import Log
from tests.support.timer import Timer

MIB = 1 << 20


def _request() -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(name="a", trace_id=b"1" * 16, span_id=b"2" * 8)
    return request.SerializeToString()


class Setup:
    """A limiter of 100 MiB with a soft limit of 80 MiB in front of a counter, and the world around it."""

    def __init__(self, caplog: pytest.LogCaptureFixture, **config: Any) -> None:
        self.rss_mib = 10
        self.after_gc_mib: int | None = None
        self.now_s = 0.0
        self.timer = Timer()
        self.runtime = Runtime()
        self.caplog = caplog
        self.settings = Settings(
            id=ComponentID("memory_limiter"),
            signal=Signal.TRACES,
            runtime=self.runtime,
            log=Log(logging.getLogger("spansieve.test")),
            clock=lambda: self.now_s,
            loop=self.timer,
        )
        self.limiter = MemoryLimiter(
            Config(**{"check_interval": 1.0, "limit_mib": 100, **config}),
            self.settings,
            read_rss=self._read_rss,
            read_total=lambda: 1000 * MIB,
        )
        self._output = Discard(Signal.TRACES)
        self._pipeline = Pipeline(Signal.TRACES, [self.limiter.op], self._output)
        self._reads = 0

    def _read_rss(self) -> int:
        self._reads += 1
        if self._reads % 2 == 0 and self.after_gc_mib is not None:
            return self.after_gc_mib * MIB
        return self.rss_mib * MIB

    def check(self, rss_mib: int, after_gc_mib: int | None = None) -> list[str]:
        """Look at a usage, and another after a collection; return what is logged."""
        if not self.timer.calls:
            self.limiter.start()
        self.rss_mib, self.after_gc_mib, self._reads = rss_mib, after_gc_mib, 0
        self.caplog.clear()
        ((_period_s, look),) = self.timer.calls
        look()
        return [record.message for record in self.caplog.records]

    def is_taken(self) -> bool:
        """Push a request."""
        try:
            self._pipeline.push(Worker(self.runtime), _request())
        except RetryableError as error:
            assert "data refused due to high memory usage" == str(error)
            return False
        return True


@pytest.fixture
def setup(caplog: pytest.LogCaptureFixture) -> Setup:
    caplog.set_level(logging.INFO)
    return Setup(caplog)


REFUSING = "Memory usage is above soft limit. Refusing data."
RESUMING = "Memory usage back within limits. Resuming normal operation."
SOFT_GC = "Memory usage is above soft limit. Forcing a GC."
HARD_GC = "Memory usage is above hard limit. Forcing a GC."
AFTER_GC = "Memory usage after GC."


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"limit_mib": 100}, "'check_interval' must be greater than zero"),
        ({"check_interval": 1.0}, "'limit_mib' or 'limit_percentage' must be greater than zero"),
        (
            {"check_interval": 1.0, "limit_mib": 100, "spike_limit_mib": 100},
            "'spike_limit_mib' must be smaller than 'limit_mib'",
        ),
        (
            {"check_interval": 1.0, "limit_percentage": 50, "spike_limit_percentage": 60},
            "'spike_limit_percentage' must be smaller than 'limit_percentage'",
        ),
        (
            {"check_interval": 1.0, "limit_percentage": 101},
            "'limit_percentage' and 'spike_limit_percentage' must be greater than zero and less than or equal to "
            "hundred",
        ),
        (
            {
                "check_interval": 1.0,
                "limit_mib": 1,
                "min_gc_interval_when_soft_limited": 1.0,
                "min_gc_interval_when_hard_limited": 2.0,
            },
            "'min_gc_interval_when_soft_limited' should be larger than 'min_gc_interval_when_hard_limited'",
        ),
    ],
)
def test_problem_has_the_collectors_words(config: dict[str, Any], message: str) -> None:
    """Each rule between fields, alone."""
    assert [message] == [text for _field, text in Config(**config).problems()]


def test_good_config_has_no_problem() -> None:
    """The two lines that everybody writes."""
    assert [] == list(Config(check_interval=1.0, limit_mib=400).problems())
    assert [] == list(Config(check_interval=1.0, limit_percentage=80, spike_limit_percentage=25).problems())


@pytest.mark.parametrize(
    ("config", "soft_mib"),
    [
        ({}, 80),
        ({"spike_limit_mib": 30}, 70),
        ({"limit_mib": 0, "limit_percentage": 50}, 400),
        ({"limit_mib": 0, "limit_percentage": 50, "spike_limit_percentage": 20}, 300),
        ({"limit_mib": 100, "limit_percentage": 50}, 80),
    ],
)
def test_soft_limit(caplog: pytest.LogCaptureFixture, config: dict[str, Any], soft_mib: int) -> None:
    """A fifth below the limit unless told; MiB win over percentages."""
    setup = Setup(caplog, **config)
    setup.check(soft_mib - 1)
    assert setup.is_taken()
    setup.check(soft_mib)
    assert not setup.is_taken()


def test_transitions_are_logged_once(setup: Setup) -> None:
    """Refusing when the soft limit is reached, resuming when usage is below, and nothing in between."""
    assert [] == setup.check(79)
    assert REFUSING in setup.check(80)
    assert [] == setup.check(85)
    assert [RESUMING] == setup.check(79)
    assert [] == setup.check(50)


def test_collection_that_helps_avoids_refusal(setup: Setup) -> None:
    """What was only garbage is not held against the clients."""
    assert [SOFT_GC, AFTER_GC] == setup.check(90, after_gc_mib=40)
    assert setup.is_taken()


def test_collections_at_the_soft_limit_are_spaced(setup: Setup) -> None:
    """10 s apart, 20 s when the last freed less than 5 %, then 30 s at most."""
    ran = []
    for now_s in range(0, 100, 5):
        setup.now_s = float(now_s)
        if SOFT_GC in setup.check(90, after_gc_mib=89):
            ran.append(now_s)
    assert [0, 20, 50, 80] == ran


def test_worthwhile_collection_restores_the_short_interval(setup: Setup) -> None:
    """The doubling ends when a collection frees enough."""
    setup.check(90, after_gc_mib=89)
    setup.now_s = 20.0
    setup.check(90, after_gc_mib=50)
    setup.now_s = 30.0
    assert SOFT_GC in setup.check(90, after_gc_mib=50)


def test_hard_limit_collects_whenever_it_may(setup: Setup) -> None:
    """By default at each look, until collections free too little."""
    assert [HARD_GC, AFTER_GC, REFUSING] == setup.check(120, after_gc_mib=110)
    setup.now_s = 0.1
    assert HARD_GC in setup.check(120, after_gc_mib=119)
    setup.now_s = 0.2
    assert HARD_GC not in setup.check(120)


def test_items_are_counted(setup: Setup) -> None:
    """Let through and refused, under the Collector's names."""
    setup.check(10)
    setup.is_taken()
    setup.check(90)
    setup.is_taken()
    setup.is_taken()
    values = {sample.instrument.name: (sample.labels, sample.value) for sample in setup.limiter.samples()}
    labels = (("processor", "memory_limiter"),)
    assert {
        "otelcol_processor_memory_limiter_accepted_spans": (labels, 1),
        "otelcol_processor_memory_limiter_refused_spans": (labels, 2),
    } == values


def test_control_loop_runs_from_start_to_shutdown(setup: Setup) -> None:
    """A first look at once, then one each check_interval."""
    setup.rss_mib = 90
    setup.limiter.start()
    assert not setup.is_taken()
    ((period_s, callback),) = setup.timer.calls
    setup.rss_mib = 10
    callback()
    assert 1.0 == period_s
    assert setup.is_taken()
    setup.limiter.shutdown(0)
    setup.limiter.shutdown(0)
    assert [] == setup.timer.calls


def test_pipelines_share_one_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Limits are logged once, the loop runs as long as one instance does, and an op of each refuses."""
    setup = Setup(caplog)
    first = setup.limiter
    second = MemoryLimiter(
        Config(check_interval=1.0, limit_mib=100),
        replace(setup.settings, signal=Signal.LOGS),
        read_rss=lambda: 0,
        read_total=lambda: 1000 * MIB,
    )
    with caplog.at_level(logging.INFO):
        first.start()
        second.start()
    assert ["Memory limiter configured"] == [record.message for record in caplog.records]
    first.shutdown(0)
    assert 1 == len(setup.timer.calls)
    second.shutdown(0)
    assert [] == setup.timer.calls


@pytest.mark.parametrize(("limit_mib", "is_warned_of"), [(999, False), (1000, True), (2000, True)])
def test_limit_beyond_the_memory_is_warned_of(
    caplog: pytest.LogCaptureFixture, limit_mib: int, is_warned_of: bool
) -> None:
    """In a container that may take less, the limiter would never have its say."""
    setup = Setup(caplog, limit_mib=limit_mib)
    with caplog.at_level(logging.WARNING):
        setup.limiter.start()
    assert is_warned_of == any("the kernel may kill" in record.message for record in caplog.records)
    setup.limiter.shutdown(0)


def test_changed_limit_of_the_container_makes_the_limiter_stale(caplog: pytest.LogCaptureFixture) -> None:
    """A share of the memory follows it at a reload, in all pipelines alike; a fixed limit has nothing to follow."""
    settings = Setup(caplog).settings
    total_mib = [1000]

    def make(**keys: int) -> MemoryLimiter:
        config = Config(check_interval=Duration(1.0), **keys)
        return MemoryLimiter(config, settings, lambda: 0, lambda: total_mib[0] * MIB)

    fixed, share = make(limit_mib=100), make(limit_percentage=50)
    assert not share.is_stale()
    total_mib[0] = 2000
    assert (fixed.is_stale(), share.is_stale()) == (False, True)
    traces, others = make(limit_percentage=50), make(limit_percentage=50)
    assert traces._watch is others._watch
    assert 1000 * MIB == traces._watch.hard
    assert not traces.is_stale()
