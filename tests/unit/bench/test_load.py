"""The load generator and the sink, over real sockets: what is sent, how it is timed, and each command."""

from __future__ import annotations

import collections
import contextlib
import json
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Exemplar, NumberDataPoint
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.ids import Signal
from tests.integration import harness
from tests.support import otlp
from tests.support.load import Sink, load, load_command, needs_tools, read_record, write_bodies

pytestmark = needs_tools

START_NS = 1_700_000_000_000_000_000


def trace(number: int, n_spans: int = 5, padding: int = 0) -> bytes:
    """Return a request with a chain of spans of one trace, an event and a link in each, and two without ids."""
    trace_id = number.to_bytes(16, "big")
    spans = []
    for i in range(n_spans):
        start_ns = START_NS + number * 1_000_000 + i
        spans.append(
            otlp.span(
                f"span {i}",
                attributes={"number": number, "user.id": f"user-{i}", "padding": "x" * padding},
                trace_id=trace_id,
                span_id=(number * 1000 + i + 1).to_bytes(8, "big"),
                parent_span_id=(number * 1000 + i).to_bytes(8, "big") if i else b"",
                start_time_unix_nano=start_ns,
                end_time_unix_nano=start_ns + 1_000 * i,
                events=[Span.Event(time_unix_nano=start_ns + 1, name="event")],
                links=[Span.Link(trace_id=trace_id, span_id=(number * 1000 + 1).to_bytes(8, "big"))],
            )
        )
    spans.append(Span(name="no ids, no times"))
    spans.append(otlp.span("zeros", trace_id=bytes(16), span_id=bytes(8), start_time_unix_nano=0))
    return otlp.traces(*spans).SerializeToString()


def points(number: int) -> bytes:
    """Return a request with two data points, one of them with an exemplar and no start."""
    exemplar = Exemplar(
        time_unix_nano=START_NS, trace_id=number.to_bytes(16, "big"), span_id=number.to_bytes(8, "big")
    )
    return otlp.sums(
        "calls",
        NumberDataPoint(start_time_unix_nano=START_NS, time_unix_nano=START_NS + number, as_int=number),
        NumberDataPoint(time_unix_nano=START_NS + number, as_int=1, exemplars=[exemplar]),
    ).SerializeToString()


def records(number: int) -> bytes:
    """Return a request with two log records, one of them of a span."""
    ids = {"trace_id": number.to_bytes(16, "big"), "span_id": number.to_bytes(8, "big")}
    return otlp.logs(
        LogRecord(time_unix_nano=START_NS + number, observed_time_unix_nano=START_NS + number + 5, **ids),
        LogRecord(severity_number=9, observed_time_unix_nano=START_NS + number),
    ).SerializeToString()


MAKERS = {Signal.TRACES: trace, Signal.METRICS: points, Signal.LOGS: records}


def ids_and_times(message: Message) -> Iterator[tuple[Message, str]]:
    """Yield the message and field of each id and time that is set, in document order."""
    for field, value in message.ListFields():
        if (field.name.endswith(("trace_id", "span_id")) and any(value)) or field.name.endswith(
            "time_unix_nano"
        ):
            yield message, field.name
        elif field.type == field.TYPE_MESSAGE:
            for child in value if isinstance(value, collections.abc.Sequence) else [value]:
                yield from ids_and_times(child)


def skeleton(signal: Signal, data: bytes) -> bytes:
    """Return a request with its ids numbered as they first appear, and times as distances from the first one."""
    request = otlp.decode(signal, data)
    numbers: dict[bytes, int] = {}
    first_ns = None
    for message, name in list(ids_and_times(request)):
        value = getattr(message, name)
        if isinstance(value, bytes):
            value = numbers.setdefault(value, len(numbers) + 1).to_bytes(len(value), "big")
        else:
            first_ns = value if first_ns is None else first_ns
            value = value - first_ns + START_NS
        setattr(message, name, value)
    return request.SerializeToString()


def ids_of(signal: Signal, data: bytes) -> set[bytes]:
    """Return the ids of a request."""
    found = [getattr(message, name) for message, name in ids_and_times(otlp.decode(signal, data))]
    return {value for value in found if isinstance(value, bytes)}


@pytest.fixture
def bodies(tmp_path: Path) -> Path:
    """Forty requests of traces, of 7 spans each."""
    return write_bodies(tmp_path / "traces", [trace(number) for number in range(1, 41)])


class TestDisguise:
    @pytest.mark.parametrize("signal", list(Signal))
    @pytest.mark.parametrize("encoding", ["none", "gzip", "zstd"])
    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_no_two_requests_are_alike_and_nothing_but_ids_and_times_changes(
        self, tmp_path: Path, signal: Signal, encoding: str, protocol: str
    ) -> None:
        """Each sending has ids of its own; who is whose parent, link and exemplar, durations and all else stay."""
        originals = [MAKERS[signal](number) for number in range(1, 11)]
        path = write_bodies(tmp_path / "bodies", originals)
        with Sink("--record", str(tmp_path / "record")) as sink:
            choices = {"signal": signal.value, "encoding": encoding, "protocol": protocol, "requests": 30}
            result = load(getattr(sink, protocol), path, connections=1, **choices)
            sink.end()
        recorded = read_record(tmp_path / "record")
        assert 30 == result["ok"] == len(recorded)
        assert {signal} == {of for of, _ in recorded}
        skeletons = [skeleton(signal, data) for _, data in recorded]
        assert sorted(skeleton(signal, data) for data in originals * 3) == sorted(skeletons)
        seen = [ids_of(signal, data) for _, data in recorded] + [ids_of(signal, data) for data in originals]
        assert sum(map(len, seen)) == len(set.union(*seen))

    def test_equal_seeds_send_equal_requests(self, tmp_path: Path, bodies: Path) -> None:
        """A run can be repeated to the byte; another seed gives other ids."""
        sent = []
        for seed in (7, 7, 8):
            record = tmp_path / f"record{len(sent)}"
            with Sink("--record", str(record)) as sink:
                load(sink.grpc, bodies, connections=1, requests=100, seed=seed)
                sink.end()
            sent.append(read_record(record))
        assert sent[0] == sent[1]
        assert sent[0] != sent[2]

    def test_keep_ids_sends_each_request_as_it_is_and_in_turn(self, tmp_path: Path, bodies: Path) -> None:
        """As many requests as the file has are those of the file, however many streams share them."""
        with Sink("--record", str(tmp_path / "record")) as sink:
            load(sink.grpc, bodies, "--keep-ids", connections=3, streams=5, requests=40)
            sink.end()
        sent = [data for _, data in read_record(tmp_path / "record")]
        assert sorted(trace(number) for number in range(1, 41)) == sorted(sent)

    def test_fewer_requests_than_streams_are_repeated(self, tmp_path: Path) -> None:
        """One request in the file is enough for many streams; each sending still has ids of its own."""
        path = write_bodies(tmp_path / "bodies", [trace(1)])
        with Sink("--record", str(tmp_path / "record")) as sink:
            load(sink.grpc, path, streams=10, requests=200)
            sink.end()
        seen = [ids_of(*each) for each in read_record(tmp_path / "record")]
        assert 200 == len(seen)
        assert sum(map(len, seen)) == len(set.union(*seen))

    def test_large_requests_arrive_whole_past_flow_control(self, tmp_path: Path) -> None:
        """Requests larger than the windows and socket buffers are written piece by piece, and unchanged meanwhile."""
        originals = [trace(number, 40, padding=250_000) for number in range(1, 5)]
        path = write_bodies(tmp_path / "bodies", originals)
        with Sink("--record", str(tmp_path / "record")) as sink:
            result = load(sink.grpc, path, connections=1, streams=3, requests=12)
            sink.end()
        skeletons = [skeleton(Signal.TRACES, data) for _, data in read_record(tmp_path / "record")]
        assert 12 == result["ok"] == len(skeletons)
        assert {skeleton(Signal.TRACES, data) for data in originals} == set(skeletons)


class TestCounts:
    @pytest.mark.parametrize("encoding", ["none", "gzip", "zstd"])
    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_load_and_sink_agree(self, bodies: Path, protocol: str, encoding: str) -> None:
        """Requests, items, payload and bytes on the wire are the same at both ends."""
        with Sink() as sink:
            sent = load(getattr(sink, protocol), bodies, protocol=protocol, encoding=encoding, requests=400)
            report = sink.report()
        assert (400, 2_800, 2_800) == (sent["requests"], sent["items"], sent["ok_items"])
        assert (400, 2_800) == (report["requests"], report["items"]["traces"])
        assert sent["payload_bytes"] == report["payload_bytes"] == 10 * (bodies.stat().st_size - 40 * 4)
        assert {"identity" if encoding == "none" else encoding: 400} == report["encodings"]
        # The sink has read all, and of gRPC what acknowledges its last answers too.
        assert 0 <= report["wire_bytes"] - sent["wire_bytes"] < 100 * 4
        assert 0 < sent["latency_us"]["min"] <= sent["latency_us"]["p50"] <= sent["latency_us"]["max"]

    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_load_spansieve_and_sink_agree(self, tmp_path: Path, bodies: Path, protocol: str) -> None:
        """All that is sent is accepted, and all that is accepted arrives."""
        with Sink() as sink:
            config = harness.make_config(int(sink.grpc.rpartition(":")[2]), processors={"batch": {}})
            with harness.start(tmp_path / "config.yaml", config) as spansieve:
                address = getattr(spansieve, protocol)
                sent = load(address, bodies, protocol=protocol, requests=500, streams=3)
            report = sink.report()
        assert 3_500 == sent["ok_items"] == report["items"]["traces"]

    def test_warm_up_is_sent_but_not_measured(self, bodies: Path) -> None:
        """The totals are those of the sink; the rest is what came after the warm-up."""
        with Sink() as sink:
            sent = load(sink.grpc, bodies, warmup=0.2, requests=100)
            report = sink.report()
        assert (100, 700) == (sent["requests"], sent["items"])
        assert sent["total_items"] == sent["total_ok_items"] == report["items"]["traces"] > 700

    def test_partial_success_is_counted_apart(self, bodies: Path) -> None:
        """Rejected items are not ok, and their requests partial."""

        def export(request: bytes, context: grpc.ServicerContext) -> ExportTraceServiceResponse:
            return ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=2))

        with grpc_server(export) as address:
            sent = load(address, bodies, requests=10)
        assert (0, 10, 20, 50) == (sent["ok"], sent["partial"], sent["rejected_items"], sent["ok_items"])


@contextlib.contextmanager
def grpc_server(export: Any) -> Iterator[str]:
    """Run grpcio's server with one method."""
    service, method = harness.EXPORT.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(
        export, response_serializer=lambda response: response.SerializeToString()
    )
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class TestOpenLoop:
    def test_rate_is_kept(self, bodies: Path) -> None:
        """Requests go out when they are due: as many as the rate and the time say."""
        with Sink() as sink:
            sent = load(sink.grpc, bodies, rate=7_000, duration=0.5)
        assert 500 == sent["requests"] + sent["unsent"]
        assert sent["requests"] == sent["ok"] >= 400

    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_latency_counts_from_when_a_request_was_due(self, bodies: Path, protocol: str) -> None:
        """A server that answers late is charged for the requests that had to wait for it, and for those unsent."""
        with Sink() as sink:
            sink.command("slow 100")
            sink.report()
            sent = load(
                getattr(sink, protocol), bodies, protocol=protocol, connections=2, rate=7 * 200, duration=1
            )
        # Two streams bring 20 requests in a second at most, of the 200 that are due: the last has waited long.
        assert 200 == sent["requests"] + sent["unsent"]
        assert sent["requests"] <= 24
        assert sent["requests"] - 2 <= sent["late"] <= sent["requests"]
        assert 100_000 * 0.99 <= sent["service_us"]["min"]
        # For a stream the load generator waits, that is not its own being late.
        assert sent["overslept"] < sent["requests"] / 2
        assert sent["latency_us"]["p50"] > 2 * sent["service_us"]["p50"]
        assert sent["latency_us"]["max"] > 500_000

    def test_polling_keeps_the_rate_and_a_share_of_the_core(self, bodies: Path) -> None:
        """What it polls away is told apart from what it needs, and others on its core have their turn."""
        with Sink() as sink:
            sent = load(sink.grpc, bodies, "--poll", rate=700, duration=1)
        assert 100 == sent["requests"] + sent["unsent"]
        assert sent["requests"] == sent["ok"] > 0
        assert 0 < sent["polled_seconds"] <= 0.45 * sent["seconds"]
        assert sent["polled_seconds"] <= sent["cpu_seconds"]

    def test_closed_loop_hides_the_same_wait(self, bodies: Path) -> None:
        """Without a rate, only the answer's own time is seen: that is what the correction is for."""
        with Sink() as sink:
            sink.command("slow 100")
            sink.report()
            sent = load(sink.grpc, bodies, connections=2, duration=0.5)
        assert sent["latency_us"] == sent["service_us"]
        assert 0 == sent["late"] == sent["overslept"] == sent["unsent"] == sent["polled_seconds"]


class TestFailures:
    def test_sigterm_ends_early_with_what_was_measured(self, bodies: Path) -> None:
        """What is on its way is waited for, and the result printed."""
        with Sink() as sink:
            command = load_command(sink.grpc, bodies, duration=60)
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                sink.wait_for(requests=1)
                process.terminate()
                sent = json.loads(process.communicate(timeout=60)[0])
            assert 0 == process.returncode
            assert sent["requests"] == sent["ok"] == sink.report()["requests"]

    def test_no_server_ends_with_1_and_a_message(self, bodies: Path) -> None:
        """Nobody listens: said at once."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            code, _, errors = run(load_command(f"127.0.0.1:{port}", bodies, requests=1))
        assert 1 == code
        assert "refused" in errors

    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_lost_connections_are_counted_and_made_again(self, bodies: Path, protocol: str) -> None:
        """A server that hangs up on each request answers none: all have failed, the exit says so."""
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
            thread = threading.Thread(target=hang_up, args=(listener,), daemon=True)
            thread.start()
            target = f"127.0.0.1:{listener.getsockname()[1]}"
            code, out, errors = run(load_command(target, bodies, protocol=protocol, requests=10))
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
        assert 1 == code
        assert 10 == json.loads(out)["failed"]
        assert "no request was answered" in errors

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"", "is not a run of"),
            (b"\0\0\0", "is not a run of"),
            (b"\0\0\0\x05abc", "is not a run of"),
            (b"\0\0\0\x02\xff\xff", "request 1: "),
            (b"\0\0\0\x00", "has no items"),
        ],
    )
    def test_file_that_is_none_of_requests_is_named(self, tmp_path: Path, content: bytes, words: str) -> None:
        """The message has the file and what is wrong with it."""
        path = tmp_path / "bodies"
        path.write_bytes(content)
        code, _, errors = run(load_command("127.0.0.1:1", path, requests=1))
        assert 1 == code
        assert f"{path}: " in errors
        assert words in errors

    def test_file_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        """The message is the system's."""
        code, _, errors = run(load_command("127.0.0.1:1", tmp_path / "none", requests=1))
        assert (1, True) == (code, f"{tmp_path / 'none'}: No such file" in errors)

    @pytest.mark.parametrize(
        "options",
        [
            ["--rate", "x"],
            ["--rate", "-1"],
            ["--rate", "nan"],
            ["--connections", "0"],
            ["--streams", "1.5"],
            ["--encoding", "snappy"],
            ["--target", "localhost"],
            ["--target", "localhost:0"],
            ["--requests", "1", "--duration", "1"],
            ["--what"],
            ["left over"],
        ],
    )
    def test_bad_options_are_refused(self, bodies: Path, options: list[str]) -> None:
        """Exit 2 with words on stderr; nothing is sent."""
        code, out, errors = run(load_command("127.0.0.1:1", bodies) + options)
        assert (2, "") == (code, out)
        assert "spansieve-load" in errors


def run(command: list[str]) -> tuple[int, str, str]:
    """Run a command to its end."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, result.stdout, result.stderr


def hang_up(listener: socket.socket) -> None:
    """Close each connection at its first request."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.recv(100_000)


class TestSink:
    @pytest.mark.parametrize(("protocol", "code"), [("grpc", "14"), ("http", "503")])
    def test_refuse_answers_the_code_or_its_http_counterpart(
        self, bodies: Path, protocol: str, code: str
    ) -> None:
        """Refused requests are counted by both, and taken again after `ok`."""
        with Sink() as sink:
            sink.command("refuse 14")
            sink.report()
            sent = load(getattr(sink, protocol), bodies, protocol=protocol, requests=20)
            assert {code: 20} == sent["refused"]
            assert (0, 0) == (sent["ok"], sent["ok_items"])
            assert (0, 20) == (sink.report()["requests"], sink.report()["refused"])
            sink.command("ok")
            sink.report()
            assert 20 == load(getattr(sink, protocol), bodies, protocol=protocol, requests=20)["ok"]

    def test_refuse_with_a_delay_adds_retry_info(self) -> None:
        """HTTP says Retry-After, gRPC RetryInfo in its details."""
        with Sink() as sink:
            sink.command("refuse 8 2000")
            sink.report()
            headers = {"Content-Type": "application/x-protobuf"}
            request = urllib.request.Request(f"http://{sink.http}/v1/traces", trace(1), headers)
            with pytest.raises(urllib.error.HTTPError) as answer:
                urllib.request.urlopen(request, timeout=60)
            answer.value.close()
            assert (429, "2") == (answer.value.code, answer.value.headers["Retry-After"])
            with grpc.insecure_channel(sink.grpc) as channel, pytest.raises(grpc.RpcError) as failure:
                channel.unary_unary(harness.EXPORT)(trace(1), timeout=60)
            assert grpc.StatusCode.RESOURCE_EXHAUSTED is failure.value.code()
            details = dict(failure.value.trailing_metadata())["grpc-status-details-bin"]
            assert b"RetryInfo" in details

    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_retry_sends_refused_requests_again_until_they_are_taken(
        self, bodies: Path, protocol: str
    ) -> None:
        """None is lost by a refusal; each refusal and each new try is counted."""
        with Sink() as sink:
            sink.command("refuse 14")
            sink.report()
            command = load_command(
                getattr(sink, protocol), bodies, "--retry", protocol=protocol, connections=2, requests=40
            )
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                sink.wait_for(refused=10)
                sink.command("ok")
                sent = json.loads(process.communicate(timeout=60)[0])
            assert 40 == sent["ok"] == sent["requests"] == sink.report()["requests"]
        refusals = sum(sent["refused"].values())
        assert 10 <= refusals == sent["retries"]

    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_slow_delays_each_answer_but_not_one_behind_the_other(self, bodies: Path, protocol: str) -> None:
        """Every answer takes the delay; those of many connections pass it together."""
        with Sink() as sink:
            sink.command("slow 50")
            sink.report()
            sent = load(getattr(sink, protocol), bodies, protocol=protocol, connections=10, requests=40)
        assert 50_000 * 0.99 <= sent["latency_us"]["min"]
        assert sent["seconds"] < 40 * 0.05

    def test_slow_connection_keeps_many_streams_apart(self, bodies: Path) -> None:
        """On one connection too, answers wait at the same time."""
        with Sink() as sink:
            sink.command("slow 50")
            sink.report()
            sent = load(sink.grpc, bodies, connections=1, streams=20, requests=100)
        assert 100 == sent["ok"]
        assert 50_000 * 0.99 <= sent["latency_us"]["min"]
        assert 100 * sent["latency_us"]["p50"] > 2 * sent["seconds"] * 1e6, "one after the other"

    @pytest.mark.parametrize("protocol", ["grpc", "http"])
    def test_stop_answers_nothing_until_ok(self, bodies: Path, protocol: str) -> None:
        """Requests time out at the sender meanwhile; reports are still given; what waits is taken afterwards."""
        with Sink() as sink:
            sink.command("stop")
            sink.report()
            command = load_command(
                getattr(sink, protocol), bodies, protocol=protocol, requests=4, timeout=0.3
            )
            code, out, errors = run(command)
            assert (1, 4) == (code, json.loads(out)["failed"])
            assert "no request was answered" in errors
            assert 0 == sink.report()["wire_bytes"]
            sink.command("ok")
            sink.report()
            assert 10 == load(getattr(sink, protocol), bodies, protocol=protocol, requests=10)["ok"]

    def test_stop_in_the_middle_loses_nothing(self, bodies: Path) -> None:
        """Requests that wait through a stop are answered after it; the open loop shows how long they had to."""
        with Sink() as sink:
            command = load_command(sink.grpc, bodies, rate=7 * 500, duration=1)
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                sink.wait_for(requests=20)
                sink.command("stop")
                first = sink.report()
                threading.Event().wait(0.3)
                assert first["requests"] == sink.report()["requests"]
                sink.command("ok")
                sent = json.loads(process.communicate(timeout=60)[0])
        assert 0 == sent["failed"]
        assert 500 == sent["ok"] + sent["unsent"]
        assert sent["latency_us"]["max"] > 250_000
        # Some 150 requests were due during the stop, of which only 4 were on their way.
        assert sent["late"] > 50

    def test_report_and_reset(self, bodies: Path) -> None:
        """A reset begins all counts anew but that of connections that are open."""
        with Sink() as sink:
            with grpc.insecure_channel(sink.grpc) as channel:
                channel.unary_unary(harness.EXPORT)(trace(1), timeout=60)
                before = sink.report()
                sink.command("reset")
                after = sink.report()
            load(sink.http, bodies, protocol="http", requests=3)
            third = sink.report()
        assert (1, 7, 1) == (before["requests"], before["items"]["traces"], before["connections"])
        assert before["wire_bytes"] > before["payload_bytes"] == len(trace(1))
        assert (0, 0, 0, 0, {}) == (
            after["requests"],
            after["items"]["traces"],
            after["payload_bytes"],
            after["wire_bytes"],
            after["encodings"],
        )
        assert 1 == after["connections"]
        assert (3, 21) == (third["requests"], third["items"]["traces"])

    def test_sigterm_reports_and_closed_stdin_does_not_end_it(self, bodies: Path) -> None:
        """Without commands to come it goes on; SIGTERM prints the last report and exits with 0."""
        with Sink() as sink:
            sink.close_stdin()
            load(sink.grpc, bodies, requests=5)
            sink.end()
        assert (5, 35) == (sink.last["requests"], sink.last["items"]["traces"])

    def test_sigterm_ends_a_stopped_sink(self) -> None:
        """A stop is no obstacle to the end."""
        with Sink() as sink:
            sink.command("stop")
            sink.report()
            sink.end()
        assert 0 == sink.last["requests"]

    def test_unknown_commands_are_told_and_change_nothing(self, bodies: Path) -> None:
        """What is no command, or has no such argument, is named on stderr; blank lines are nothing."""
        wrong = ["what", "slow", "slow x", "slow -1", "refuse 0", "refuse 17", "refuse 14 x", "x" * 1000]
        with Sink() as sink:
            for line in [*wrong, "", "  "]:
                sink.command(line)
            assert 3 == load(sink.grpc, bodies, requests=3)["ok"]
            sink.report()
            errors = sink.end()
        assert len(wrong) <= errors.count("spansieve-sink: ") <= len(wrong) + 3

    def test_malformed_requests_are_refused_and_not_counted(self) -> None:
        """What is no request is answered 400, and does not reach the record."""
        headers = {"Content-Type": "application/x-protobuf"}
        with Sink() as sink:
            request = urllib.request.Request(f"http://{sink.http}/v1/traces", b"\x0a\xff", headers)
            with pytest.raises(urllib.error.HTTPError) as answer:
                urllib.request.urlopen(request, timeout=60)
            answer.value.close()
            assert 400 == answer.value.code
            assert 0 == sink.report()["requests"]

    @pytest.mark.parametrize("options", [["--listen", "nowhere"], ["--listen", "127.0.0.1:0", "--what"], []])
    def test_bad_options_end_it(self, options: list[str]) -> None:
        """It says why, and does not listen."""
        command = load_command("", Path())[0].replace("spansieve-load", "spansieve-sink")
        code, out, errors = run([command, *options])
        assert code in {1, 2}
        assert "" == out
        assert "spansieve-sink" in errors
