"""Refuse requests while the process uses too much memory, so that clients wait instead of the process dying.

Usage is the resident set size, where the Collector takes Go's heap: what the system counts is what the system kills
for. Between two samples the native op adds what was taken in, and what requests are made into on their way: rows,
edits and copies are counted before they are taken, so that a small request cannot become much in one step. The
Collector's forced garbage collection is here: collect Python's garbage, which is little, and give freed memory back
to the system.

Source: OpenTelemetry Collector, `memory_limiter` processor.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

from collector.component import Factory, Handle, Settings, Stability
from collector.config.fields import Duration, option, section
from collector.ids import ComponentID, Signal
from collector.native import ops
from collector.native.runtime import Runtime
from collector.telemetry.instruments import Instrument, Sample
from collector.telemetry.process import read_memory, read_memory_limit

_MIB = 1 << 20
_WORTHWHILE = 0.05  # a collection that frees less of the usage makes the next one wait longer
_INTERVAL_STEP_S = 1.0  # what an interval of 0 is stretched to first
# By signal, those of the op's counters in their order.
_COUNTERS = {
    signal: [
        Instrument(
            f"otelcol_processor_memory_limiter_{verdict}_{signal.items}",
            "counter",
            text.format(signal.items.replace("_", " ")),
        )
        for verdict, text in (
            ("accepted", "Number of {} successfully pushed into the next component in the pipeline."),
            ("refused", "Number of {} refused by the memory limiter."),
        )
    ]
    for signal in Signal
}
_UINT32_MAX = 0xFFFFFFFF


@section
class Config:
    """The Collector's keys."""

    check_interval: Duration = option(
        Duration(0.0), doc="Time between two looks at memory usage; required, 1s is good."
    )
    limit_mib: int = option(
        0,
        doc="Hard limit. Wins over limit_percentage. A request that would need more than that for itself is rejected"
        " for good.",
        unit="MiB",
        minimum=0,
        maximum=_UINT32_MAX,
    )
    spike_limit_mib: int = option(
        0,
        doc="Usage is refused from limit_mib less this; 0 is a fifth of limit_mib.",
        unit="MiB",
        minimum=0,
        maximum=_UINT32_MAX,
    )
    limit_percentage: int = option(
        0, doc="Hard limit as a share of the cgroup's limit or the machine's memory.", unit="%", minimum=0
    )
    spike_limit_percentage: int = option(
        0, doc="As spike_limit_mib; 0 is a fifth of the limit.", unit="%", minimum=0
    )
    min_gc_interval_when_soft_limited: Duration = option(
        Duration(10.0), doc="Shortest time between two collections at the soft limit."
    )
    min_gc_interval_when_hard_limited: Duration = option(
        Duration(0.0), doc="Shortest time between two collections at the hard limit."
    )
    max_gc_interval_when_soft_limited: Duration = option(
        Duration(30.0), doc="To what collections that free little stretch that time at the soft limit."
    )
    max_gc_interval_when_hard_limited: Duration = option(
        Duration(30.0), doc="To what collections that free little stretch that time at the hard limit."
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong between fields, in the Collector's words."""
        if self.check_interval <= 0:
            yield "", "'check_interval' must be greater than zero"
        if self.limit_mib == 0 and self.limit_percentage == 0:
            yield "", "'limit_mib' or 'limit_percentage' must be greater than zero"
        if self.limit_percentage > 100 or self.spike_limit_percentage > 100:
            yield (
                "",
                (
                    "'limit_percentage' and 'spike_limit_percentage' must be greater than zero and less than or equal "
                    "to hundred"
                ),
            )
        if self.limit_mib > 0 and self.spike_limit_mib >= self.limit_mib:
            yield "", "'spike_limit_mib' must be smaller than 'limit_mib'"
        if self.limit_percentage > 0 and self.spike_limit_percentage >= self.limit_percentage:
            yield "", "'spike_limit_percentage' must be smaller than 'limit_percentage'"
        if self.min_gc_interval_when_soft_limited < self.min_gc_interval_when_hard_limited:
            yield (
                "",
                "'min_gc_interval_when_soft_limited' should be larger than 'min_gc_interval_when_hard_limited'",
            )
        for limit in ("soft", "hard"):
            longest, shortest = (
                f"max_gc_interval_when_{limit}_limited",
                f"min_gc_interval_when_{limit}_limited",
            )
            if getattr(self, longest) < 0:
                yield "", f"'{longest}' must be non-negative"
            elif 0 < getattr(self, longest) < getattr(self, shortest):
                yield "", f"'{longest}' must be greater than or equal to '{shortest}' (or 0 to disable)"
        if 0 < self.max_gc_interval_when_soft_limited < self.max_gc_interval_when_hard_limited:
            yield (
                "",
                "'max_gc_interval_when_soft_limited' should be larger than or equal to "
                "'max_gc_interval_when_hard_limited' (when both are set)",
            )


class _Watch:
    """The control loop of one `memory_limiter`, whose instances in all pipelines share it: one usage, one log."""

    def __init__(
        self, config: Config, settings: Settings, read_rss: Callable[[], int], read_total: Callable[[], int]
    ) -> None:
        self._config = config
        self._settings = settings
        self._log = settings.log.unbind("otelcol.component.id", "otelcol.pipeline.id", "otelcol.signal")
        self._read_rss = read_rss
        self._read_total = read_total
        self._total = read_total()
        self.hard, self.soft = _limits(config, self._total)
        self._soft_interval_s = float(config.min_gc_interval_when_soft_limited)
        self._hard_interval_s = float(config.min_gc_interval_when_hard_limited)
        self._last_gc_s = float("-inf")
        self._is_refusing = False
        self._users = 0
        self._timer: Handle | None = None

    def is_stale(self) -> bool:
        """Return whether the limits are a share of what is no longer the memory that there is."""
        return not self._config.limit_mib and self._read_total() != self._total

    def start(self) -> None:
        """Look at the usage now and from now on, if this is the first user."""
        self._users += 1
        if self._timer is not None:
            return
        self._log.info(
            "Memory limiter configured",
            limit_mib=self.hard // _MIB,
            spike_limit_mib=(self.hard - self.soft) // _MIB,
            check_interval=float(self._config.check_interval),
        )
        if self.hard >= self._total:
            self._log.warning(
                "The limit is all the memory that there is, or more: the kernel may kill before it refuses.",
                limit_mib=self.hard // _MIB,
                available_mib=self._total // _MIB,
            )
        self.check()
        self._timer = self._settings.loop.every(self._config.check_interval, self.check)

    def shutdown(self) -> None:
        """Look no more, if this was the last user."""
        self._users -= 1
        if self._users == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def check(self) -> None:
        """Look at the usage: collect where it is high, tell the op, log a change between refusing and not."""
        rss = self._read_rss()
        if rss >= self.hard:
            rss, self._hard_interval_s = self._collect(
                rss,
                "hard",
                self._hard_interval_s,
                self._config.min_gc_interval_when_hard_limited,
                self._config.max_gc_interval_when_hard_limited,
            )
        elif rss >= self.soft:
            rss, self._soft_interval_s = self._collect(
                rss,
                "soft",
                self._soft_interval_s,
                self._config.min_gc_interval_when_soft_limited,
                self._config.max_gc_interval_when_soft_limited,
            )
        self._settings.runtime.set_rss(rss)
        is_refusing = max(rss, self._settings.runtime.in_flight_bytes) >= self.soft
        if is_refusing and not self._is_refusing:
            self._log.warning("Memory usage is above soft limit. Refusing data.", cur_mem_mib=rss // _MIB)
        elif self._is_refusing and not is_refusing:
            self._log.info(
                "Memory usage back within limits. Resuming normal operation.", cur_mem_mib=rss // _MIB
            )
        self._is_refusing = is_refusing

    def _collect(
        self, rss: int, limit: str, interval_s: float, shortest_s: float, longest_s: float
    ) -> tuple[int, float]:
        """Force a collection unless the last is too near; return the usage and the interval from now on."""
        now_s = self._settings.clock()
        if now_s - self._last_gc_s < interval_s:
            return rss, interval_s
        self._last_gc_s = now_s
        self._log.warning(f"Memory usage is above {limit} limit. Forcing a GC.", cur_mem_mib=rss // _MIB)
        gc.collect()
        self._settings.runtime.release_memory()
        after = self._read_rss()
        self._log.info("Memory usage after GC.", cur_mem_mib=after // _MIB)
        if rss - after >= _WORTHWHILE * rss or not longest_s:
            return after, shortest_s
        return after, min(max(2 * interval_s, _INTERVAL_STEP_S), longest_s)


_watches: weakref.WeakValueDictionary[tuple[Runtime, ComponentID, Config], _Watch] = (
    weakref.WeakValueDictionary()
)


class MemoryLimiter:
    """The native op that refuses, and a share in the control loop that tells it the usage.

    Args:
        read_rss: returns the resident set size in bytes.
        read_total: returns the bytes of memory that there are, of which limit_percentage is a share.
    """

    def __init__(
        self,
        config: Config,
        settings: Settings,
        read_rss: Callable[[], int] = lambda: read_memory().rss_bytes,
        read_total: Callable[[], int] = read_memory_limit,
    ) -> None:
        self._counters = _COUNTERS[settings.own_signal]
        self._labels = (("processor", str(settings.id)),)
        key = settings.runtime, settings.id, config
        watch = _watches.get(key)
        self._watch = (
            _Watch(config, settings, read_rss, read_total) if watch is None or watch.is_stale() else watch
        )
        _watches[key] = self._watch
        self._is_started = False
        self.op = ops.memory_limiter(settings.runtime, self._watch.soft, self._watch.hard)

    def start(self) -> None:
        """Look at the usage now and from now on."""
        self._is_started = True
        self._watch.start()

    def shutdown(self, deadline_s: float) -> None:
        """Look no more."""
        if self._is_started:
            self._is_started = False
            self._watch.shutdown()

    def is_stale(self) -> bool:
        """Return whether the limit of the container has changed, of which this one's is a share."""
        return self._watch.is_stale()

    def samples(self) -> Iterator[Sample]:
        """Return the items let through and refused."""
        for index, instrument in enumerate(self._counters):
            yield Sample(instrument, self._labels, self.op.counter(index))


def _limits(config: Config, total: int) -> tuple[int, int]:
    if config.limit_mib:
        hard, spike = config.limit_mib * _MIB, config.spike_limit_mib * _MIB
    else:
        hard, spike = total * config.limit_percentage // 100, total * config.spike_limit_percentage // 100
    return hard, hard - (spike or hard // 5)


factory = Factory(
    config=Config,
    create=MemoryLimiter,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example="check_interval: 1s\nlimit_percentage: 80",
)
