"""How large what leaves is, and how much memory that takes: users' reports as input and what must happen."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.integration.harness import h2_backend, make_config, start, wait_for
from tests.integration.load import Backend, Sender, total
from tests.support.otlp import span, traces

IS_SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")


def make(port: int, compression: str) -> dict[str, Any]:
    """Return a configuration that takes requests of any size and batches as by default."""
    config = make_config(
        port, processors={"batch": {"timeout": "50ms"}}, otlp_grpc={"compression": compression}
    )
    config["receivers"]["otlp"]["protocols"]["grpc"]["max_recv_msg_size_mib"] = 64
    config["exporters"]["otlp_grpc"]["retry_on_failure"] = {"enabled": False}
    return config


def test_a_huge_request_leaves_in_messages_that_any_server_takes(tmp_path: Path) -> None:
    """R41: of 16 MB each span leaves once, within gRPC's default limit; one that is larger alone costs itself alone."""
    with Backend() as server, start(tmp_path / "c", make(server.port, "gzip")) as spansieve:
        with Sender(spansieve.grpc) as sender:
            assert sender.send(20_000, attribute_bytes=800)
            wait_for(lambda: server.n_spans == 20_000)
            assert sender.send(1, attribute_bytes=5_000_000)
            wait_for(lambda: total(spansieve, "otelcol_exporter_send_failed_spans") == 1)
            assert sender.send(10)
            wait_for(lambda: server.n_spans == 20_010)
        assert max(server.sizes) <= 4_000_000
        assert set(server.spans.values()) == {1}


def send_much(endpoint: str, number: int) -> None:
    """Send 40 requests of spans with texts that repeat as real ones do."""
    texts = [f"/api/v1/orders/{index * 37 % 101}/items" for index in range(101)]
    with Sender(endpoint, first=1 + number * 1_000_000) as sender:
        for round in range(40):
            ids = [(1 + number * 1_000_000 + round * 500 + index).to_bytes(8, "big") for index in range(500)]
            request = traces(
                *(
                    span(
                        trace_id=id * 2, span_id=id, attributes={"url.path": texts[id[-1] % 101], "n": id[-1]}
                    )
                    for id in ids
                )
            )
            sender._export(request.SerializeToString(), timeout=60)


@pytest.mark.skipif(IS_SANITIZED, reason="asserts on resident memory")
def test_zstd_costs_no_more_memory_than_gzip(tmp_path: Path) -> None:
    """R50: with 16 senders, peak memory is within 30 MB of that with gzip, and fewer bytes leave."""
    peaks, sent = {}, {}
    for compression in ("gzip", "zstd"):
        with (
            h2_backend() as backend,
            start(tmp_path / compression, make(backend.server_address[1], compression)) as spansieve,
        ):
            threads = [threading.Thread(target=send_much, args=(spansieve.grpc, n)) for n in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            wait_for(lambda running=spansieve: total(running, "otelcol_exporter_sent_spans") == 320_000)
            peaks[compression] = spansieve.peak_rss_bytes()
            sent[compression] = total(spansieve, "spansieve_exporter_sent_bytes")
    assert peaks["zstd"] < peaks["gzip"] + 30_000_000
    assert sent["zstd"] < sent["gzip"]
