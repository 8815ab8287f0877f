from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import yaml

from bench import bodies, compression, requests, servers
from bench.process import memory_bytes


def test_cpu_time_is_that_of_the_whole_process() -> None:
    """The clock made from the pid is the process's own."""
    before = time.process_time()
    measured = servers.cpu_seconds(os.getpid())
    assert before <= measured <= time.process_time()


def test_memory_is_read_in_bytes() -> None:
    """A field of the status page, for a process that lives."""
    assert 1_000_000 < memory_bytes(os.getpid(), "VmRSS") <= memory_bytes(os.getpid(), "VmHWM")


def test_success_is_what_h2load_counted() -> None:
    """Refused requests do not count, and neither does a text without the count."""
    line = "requests: 20 total, 20 started, 20 done, 18 succeeded, 2 failed, 0 errored, 0 timeout"
    assert 18 == requests.succeeded(line)
    assert 0 == requests.succeeded("h2load: command not found")


def test_series_of_a_metric_add_up() -> None:
    """All label sets of exactly this metric, with or without the suffix of counters."""
    page = ['a_total{x="1"} 2', 'a_total{x="2"} 3', "a_total_more 9", "# a_total 7", "a 10"]
    assert 15.0 == servers.sum_of_series(page, "a")


def test_missing_tool_names_its_package() -> None:
    """What cannot be measured says what to install."""
    with pytest.raises(servers.MissingTool, match="install some-package"):
        servers.find_tool("no-such-program-anywhere", "some-package")


def test_measured_pipeline_is_the_stated_one(tmp_path: Path) -> None:
    """otlp, 10 % sampled, filtered, batched, discarded; own telemetry on."""
    collector = servers.configure_collector(tmp_path)
    document = yaml.safe_load(Path(collector.command[-1]).read_text(encoding="utf-8"))
    pipeline = document["service"]["pipelines"]["traces"]
    assert ["otlp"] == pipeline["receivers"]
    assert ["probabilistic_sampler", "low_value_filter", "batch"] == pipeline["processors"]
    assert ["nop"] == pipeline["exporters"]
    assert 10 == document["processors"]["probabilistic_sampler"]["sampling_percentage"]
    reader = document["service"]["telemetry"]["metrics"]["readers"][0]
    assert collector.metrics_port == reader["pull"]["exporter"]["prometheus"]["port"]


def test_export_loses_nothing() -> None:
    """Every span is in a batch, batches have the stated size, and bytes come out fewer."""
    sources = [bodies.generate(500, seed) for seed in range(20)]
    plain, packed, spans, batches = compression.compress(sources, max_bytes=0)
    assert 10_000 == spans
    assert 2 == batches  # 8,192 and the rest
    assert packed < plain / 2
