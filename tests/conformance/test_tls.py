"""TLS in front of the native transport: real clients, and handshakes that are odd, slow or no handshakes at all."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import os
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector.config.fields import Duration
from collector.config.http import Cors
from collector.config.tls import TLSServer
from collector.errors import StartError
from collector.ids import Signal
from collector.native.library import has_net
from collector.native.pipeline import Consumer, Queue, Receiver, Verdict
from collector.native.runtime import Runtime
from collector.native.server import Listener, Server
from tests.conformance.bodies import GOLDEN
from tests.conformance.harness import Address, Collector, PeakMemory, wait_until
from tests.conformance.peers import GrpcPeer, HttpPeer, http_request
from tests.support import otlp
from tests.support.certificates import Authority

pytestmark = pytest.mark.skipif(not has_net(), reason="built without the native transport")

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
PATIENCE_S = 60.0
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that nobody trusts unasked."""
    return Authority(tmp_path)


def serve(authority: Authority, **keys: Any) -> Collector:
    """Return a collector that shows a certificate for 127.0.0.1 over both protocols."""
    tls = TLSServer(**{**authority.issue().keys, **keys})
    return Collector("native", grpc={"tls": tls}, http={"tls": tls})


@pytest.fixture
def collector(authority: Authority) -> Iterator[Collector]:
    """A collector with TLS."""
    with serve(authority) as made:
        yield made


def client_context(authority: Authority, *protocols: str, **limits: Any) -> ssl.SSLContext:
    """Return a context that trusts authority and offers protocols."""
    context = ssl.create_default_context(cafile=authority.file)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    for name, value in limits.items():
        setattr(context, name, value)
    return context


def connect(address: Address, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Return a connection over TLS that does not take a torn end for a goodbye."""
    raw = socket.create_connection(address, timeout=PATIENCE_S)
    return context.wrap_socket(raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False)


def export(address: Address, authority: Authority, body: bytes, **keys: Any) -> bytes:
    """Call Export with grpcio."""
    credentials = grpc.ssl_channel_credentials(authority.pem.encode(), **keys)
    with grpc.secure_channel(f"{address[0]}:{address[1]}", credentials) as channel:
        answer: bytes = channel.unary_unary(EXPORT)(body, timeout=PATIENCE_S)
        return answer


def post(address: Address, context: ssl.SSLContext, body: bytes) -> int:
    """Post traces; return the status."""
    connection = http.client.HTTPSConnection(*address, context=context, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/traces", body, PROTOBUF)
        response = connection.getresponse()
        response.read()
        return response.status


def test_grpcio_and_http_client_are_served(collector: Collector, authority: Authority) -> None:
    """The message arrives as it is over both protocols."""
    body = GOLDEN[Signal.TRACES]
    export(collector.grpc, authority, body)
    assert post(collector.http, client_context(authority), body) == 200
    assert [body, body] == collector.take()


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_sdk_exports(
    collector: Collector, authority: Authority, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The OpenTelemetry SDK's exporters need nothing but the authority's certificate."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # which overrule what a session of requests is told
        monkeypatch.delenv(name, raising=False)
    if kind == "grpc":
        credentials = grpc.ssl_channel_credentials(authority.pem.encode())
        exporter: Any = GrpcExporter(
            endpoint=f"https://127.0.0.1:{collector.grpc[1]}", credentials=credentials
        )
    else:
        exporter = HttpExporter(
            endpoint=f"https://127.0.0.1:{collector.http[1]}/v1/traces", certificate_file=authority.file
        )
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("test").start_as_current_span("over TLS"):
        pass
    provider.shutdown()
    (request,) = collector.take()
    assert b"over TLS" in request


def test_large_messages_pass_in_any_pieces(collector: Collector, authority: Authority) -> None:
    """Bodies of many records, and of records of a few bytes, arrive as they are."""
    body = GOLDEN[Signal.TRACES] * 20_000  # concatenated messages are one message
    assert len(body) > 1 << 20
    export(collector.grpc, authority, body)
    assert post(collector.http, client_context(authority), body) == 200
    small = GOLDEN[Signal.TRACES]
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF['Content-Type']}\r\n"
    with connect(collector.http, client_context(authority)) as connection:
        for byte in f"{head}Content-Length: {len(small)}\r\n\r\n".encode() + small:
            connection.sendall(bytes([byte]))
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
    assert [body, body, small] == collector.take()


def test_unread_answers_stay_bounded(collector: Collector, authority: Authority) -> None:
    """A client that pipelines and does not read is not read from; it gets all answers once it reads."""
    request = b"POST /v1/nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
    with connect(collector.http, client_context(authority)) as connection, PeakMemory() as memory:
        connection.sendall(request)
        answer = connection.recv(1 << 16)
        connection.setblocking(False)
        n_sent = 0
        stuffed = request * 100
        while select.select([], [connection], [], 0.5)[1]:  # until it stays full
            with contextlib.suppress(ssl.SSLWantWriteError):
                n_sent += connection.send(stuffed[n_sent % len(request) :])
        assert n_sent > 1 << 20
        connection.settimeout(PATIENCE_S)
        expected = n_sent // len(request) * len(answer)
        received = 0
        while received < expected:
            received += len(connection.recv(1 << 16))
    assert expected == received
    if "asan" not in os.environ.get("LD_PRELOAD", ""):  # which keeps what is freed for a while
        assert memory.growth < 16 << 20


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_client_without_a_certificate_is_refused(
    authority: Authority, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With client_ca_file only clients with a certificate of that authority are served; the log says who is not."""
    files = authority.issue("client.example", file="client")
    (authority_folder := Path(authority.file).parent / "other").mkdir()
    other = Authority(authority_folder).issue("client.example", file="client")
    with serve(authority, client_ca_file=authority.file) as collector:
        body = GOLDEN[Signal.TRACES]
        if kind == "grpc":
            pair = {
                "private_key": Path(files.key).read_bytes(),
                "certificate_chain": Path(files.cert).read_bytes(),
            }
            with pytest.raises(grpc.RpcError):
                export(collector.grpc, authority, body)
            export(collector.grpc, authority, body, **pair)
        else:
            with pytest.raises(OSError, match="certificate required"):
                post(collector.http, client_context(authority), body)
            context = client_context(authority)
            context.load_cert_chain(*other)
            with pytest.raises(OSError, match="unknown ca"):
                post(collector.http, context, body)
            context = client_context(authority)
            context.load_cert_chain(*files)
            assert post(collector.http, context, body) == 200
        assert [body] == collector.take()
        with caplog.at_level(logging.WARNING):
            collector.timer.fire()
    (record,) = [record for record in caplog.records if record.getMessage() == "TLS handshake error"]
    expected = {
        "grpc": "peer did not return a certificate",
        "http": "failed to verify certificate: unable to get local issuer certificate",
    }
    assert expected[kind] in record.__dict__["fields"]["error"]


@pytest.mark.parametrize(
    ("protocol", "offered", "agreed"),
    [
        ("grpc", ("h2",), "h2"),
        ("grpc", ("http/1.1", "h2"), "h2"),
        ("http", ("http/1.1", "h2"), "h2"),
        ("http", ("h2",), "h2"),
        ("http", ("http/1.1",), "http/1.1"),
        ("http", (), None),
    ],
)
def test_protocol_is_agreed_on(
    collector: Collector, authority: Authority, protocol: str, offered: tuple[str, ...], agreed: str | None
) -> None:
    """Each port offers what it speaks, HTTP/2 first."""
    with connect(getattr(collector, protocol), client_context(authority, *offered)) as connection:
        assert agreed == connection.selected_alpn_protocol()


@pytest.mark.parametrize(("protocol", "offered"), [("grpc", ("http/1.1",)), ("http", ("h3",))])
def test_other_protocols_are_refused(
    collector: Collector, authority: Authority, protocol: str, offered: tuple[str, ...]
) -> None:
    """A client that speaks only something else is told so in the handshake."""
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        connect(getattr(collector, protocol), client_context(authority, *offered))


Fields = tuple[tuple[str, str], ...]
ORIGIN = ("origin", "http://page.example")
HTTP_CASES: dict[str, tuple[str, str, bytes | None, Fields]] = {
    "traces": ("POST", "/v1/traces", GOLDEN[Signal.TRACES], ()),
    "logs": ("POST", "/v1/logs", GOLDEN[Signal.LOGS], ()),
    "gzip": ("POST", "/v1/traces", gzip.compress(GOLDEN[Signal.TRACES]), (("content-encoding", "gzip"),)),
    "large": ("POST", "/v1/traces", otlp.traces(otlp.span("n" * 300_000)).SerializeToString(), ()),
    "malformed": ("POST", "/v1/traces", b"\x0a\xff", ()),
    "empty": ("POST", "/v1/traces", b"", ()),
    "unknown encoding": ("POST", "/v1/traces", b"x", (("content-encoding", "br"),)),
    "other path": ("POST", "/v1/trace", b"x", ()),
    "other method": ("GET", "/v1/traces", None, ()),
    "cross-origin": ("POST", "/v1/traces", GOLDEN[Signal.TRACES], (ORIGIN,)),
    "preflight": ("OPTIONS", "/v1/traces", None, (ORIGIN, ("access-control-request-method", "POST"))),
}


@pytest.mark.parametrize("case", HTTP_CASES)
def test_http2_is_answered_as_http1(authority: Authority, case: str) -> None:
    """Status, headers, body, and what is taken: with the length stated and without."""
    method, path, body, more = HTTP_CASES[case]
    headers = [("content-type", "application/x-protobuf"), *more]
    cors = Cors(allowed_origins=("http://*.example",))
    keys = {"tls": TLSServer(**authority.issue().keys), "cors": cors, "response_headers": {"x-a": "b"}}
    signal = Signal.LOGS if "logs" in path else Signal.TRACES
    with Collector("native", http=keys) as collector:
        with HttpPeer(collector.http, client_context(authority)) as peer:
            peer.send(http_request(path, body, headers, method))
            expected = peer.answer()
        taken = collector.take(signal)
        pseudo = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost")]
        length = [] if body is None else [("content-length", str(len(body)))]
        with GrpcPeer(collector.http, client_context(authority, "h2")) as peer2:
            for stated in (length, []):
                stream = peer2.open([*pseudo, *headers, *stated], end_stream=body is None)
                if body is not None:
                    peer2.send(stream, body)
                assert expected == peer2.http_answer(stream)
                assert taken == collector.take(signal)


def test_curl_is_served_over_http2(collector: Collector, authority: Authority, tmp_path: Path) -> None:
    """A client that others have written, as it comes."""
    curl = shutil.which("curl")
    if curl is None or b"HTTP2" not in subprocess.check_output([curl, "--version"], env={}):
        pytest.skip("needs curl with HTTP/2")
    (tmp_path / "body").write_bytes(GOLDEN[Signal.TRACES])
    host, port = collector.http
    ran = subprocess.run(
        [curl, "--silent", "--show-error", "--cacert", authority.file, "--write-out", "%{http_version} %{http_code}",
         "--header", "Content-Type: application/x-protobuf", "--data-binary", f"@{tmp_path / 'body'}",
         f"https://{host}:{port}/v1/traces"],
        env={}, check=False, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert ("2 200", "") == (ran.stdout, ran.stderr)
    assert [GOLDEN[Signal.TRACES]] == collector.take()


def test_answers_come_later_over_http2(authority: Authority) -> None:
    """Requests wait for their outcome beside one another, and go with their stream."""
    queues: list[Queue] = []

    def consumers(runtime: Runtime) -> Mapping[Signal, Consumer]:
        queues.append(Queue(runtime, Signal.TRACES, sizer="requests", capacity=1))
        queues[0].hold_answers(waiting_max=10)
        return {Signal.TRACES: queues[0]}

    keys = {"tls": TLSServer(**authority.issue().keys)}
    head = [(":method", "POST"), (":scheme", "https"), (":path", "/v1/traces"), (":authority", "localhost")]
    head.append(("content-type", "application/x-protobuf"))
    with (
        Collector("native", http=keys, consumers=consumers) as collector,
        GrpcPeer(collector.http, client_context(authority, "h2")) as peer,
    ):
        streams = [peer.open(head) for _ in range(3)]
        for stream in streams:
            peer.send(stream, GOLDEN[Signal.TRACES])
        wait_until(lambda: queues[0].stats().size == 3)
        peer.reset(streams[1])
        wait_until(lambda: queues[0].stats().withdrawn_items == 1)
        for message in ("first", "third"):
            item = queues[0].pop(PATIENCE_S)
            assert item is not None
            queues[0].done(item, Verdict(3, message))
        answers = [peer.http_answer(streams[0]), peer.http_answer(streams[2])]
        assert [400, 400] == [answer.status for answer in answers]
        assert [b"first", b"third"] == [answer.body[4:] for answer in answers]


def test_grpc_without_alpn_is_refused(collector: Collector, authority: Authority) -> None:
    """As by grpc-go: HTTP/2 has to be agreed on."""
    with (
        connect(collector.grpc, client_context(authority)) as connection,
        pytest.raises(ssl.SSLEOFError),  # it is torn
    ):
        connection.recv(1)


def test_versions_hold(authority: Authority) -> None:
    """1.2 is the least by default; min_version and max_version move it."""
    old = {"minimum_version": ssl.TLSVersion.TLSv1_2, "maximum_version": ssl.TLSVersion.TLSv1_2}
    with (
        serve(authority) as collector,
        connect(collector.http, client_context(authority, **old)) as connection,
    ):
        assert connection.version() == "TLSv1.2"
    with (
        serve(authority, min_version="1.3") as collector,
        pytest.raises(ssl.SSLError, match="(?i)protocol.version"),
    ):
        connect(collector.http, client_context(authority, **old))
    with (
        serve(authority, max_version="1.2") as collector,
        connect(collector.http, client_context(authority)) as connection,
    ):
        assert connection.version() == "TLSv1.2"


def test_suites_and_curves_hold(authority: Authority) -> None:
    """Only the suites and curves that are named are agreed on."""
    keys = {
        "max_version": "1.2",
        "cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",),
        "curve_preferences": ("P384",),
    }
    with serve(authority, **keys) as collector:
        with connect(collector.http, client_context(authority)) as connection:
            cipher = connection.cipher()
            assert cipher is not None
            assert cipher[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
        context = client_context(authority)
        context.set_ecdh_curve("prime256v1")
        with pytest.raises(ssl.SSLError, match="(?i)handshake.failure"):
            connect(collector.http, context)


@needs_openssl
def test_tls_1_1_is_refused(collector: Collector) -> None:
    """Whatever the client's own level of security is."""
    run = _s_client(collector.http, "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0")
    assert "alert protocol version" in run


@needs_openssl
def test_tls_1_1_is_spoken_where_min_version_asks_for_it(authority: Authority) -> None:
    """OpenSSL's own level does not stand in the way."""
    with serve(authority, min_version="1.1") as collector:
        run = _s_client(collector.http, "-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0")
    assert "Protocol  : TLSv1.1" in run
    assert "Cipher    : ECDHE-ECDSA-AES256-SHA" in run


@needs_openssl
def test_renegotiation_is_refused(collector: Collector) -> None:
    """A client cannot make us shake hands again, which is work for nothing."""
    run = _s_client(collector.http, "-tls1_2", text="R\n")
    assert "no renegotiation" in run.lower()


def _s_client(address: Address, *arguments: str, text: str = "") -> str:
    run = subprocess.run(
        ["openssl", "s_client", "-connect", f"{address[0]}:{address[1]}", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return run.stdout + run.stderr


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_client_without_tls_is_told(
    collector: Collector, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets an answer where its protocol has one, and the operator reads what to do."""
    with socket.create_connection(getattr(collector, protocol), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    expected = {
        "http": b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
        "grpc": b"",
    }
    assert expected[protocol] == answer
    with caplog.at_level(logging.WARNING):
        collector.timer.fire()
    assert [True] == [
        record.getMessage().startswith("a client without TLS is talking") for record in caplog.records
    ]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16",
        b"\x16\x03\x01\xff\xff" + b"\x00" * 70_000,
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff" + b"\x16\x03\x01\x40\x00" + b"a" * 16384,
    ],
)
def test_garbage_ends_one_connection_and_no_other(
    collector: Collector, authority: Authority, garbage: bytes
) -> None:
    """Records that are none, too long, or promise a message without end."""
    with connect(collector.http, client_context(authority)) as neighbour:
        with (
            socket.create_connection(collector.http, timeout=PATIENCE_S) as connection,
            contextlib.suppress(OSError),
        ):
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
        neighbour.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
        assert neighbour.recv(4096).startswith(b"HTTP/1.1 404")


def test_slow_handshake_is_waited_for(collector: Collector, authority: Authority) -> None:
    """A handshake that comes byte by byte is one."""
    context = client_context(authority)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(collector.http, timeout=PATIENCE_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    connection.sendall(bytes([byte]))
                incoming.write(connection.recv(1 << 16))
        client.write(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
        for byte in outgoing.read():
            connection.sendall(bytes([byte]))
        wait_until(lambda: _read(client, incoming, connection).startswith(b"HTTP/1.1 404"))


def _read(client: ssl.SSLObject, incoming: ssl.MemoryBIO, connection: socket.socket) -> bytes:
    incoming.write(connection.recv(1 << 16))
    try:
        return client.read(4096)
    except ssl.SSLWantReadError:
        return b""


def test_half_open_handshake_is_ended(authority: Authority) -> None:
    """Who connects and goes silent, before or within the handshake, is not kept, and costs little while it is."""
    tls = TLSServer(**authority.issue().keys)
    runtime = Runtime()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = Server(
            runtime,
            [
                Listener(
                    fd=listening.fileno(),
                    protocol="http",
                    tls=tls.native(tls.read(), "http/1.1"),
                    handshake_timeout_s=0.2,
                )
            ],
            Receiver(runtime),
        )
        silent = [socket.create_connection(listening.getsockname(), timeout=PATIENCE_S) for _ in range(50)]
        for connection in silent[:25]:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert [b""] * 50 == [connection.recv(1) for connection in silent]
        wait_until(lambda: server.stats().connections_open == 0)
        for connection in silent:
            connection.close()
        server.shutdown(1)


def test_shutdown_says_goodbye(authority: Authority) -> None:
    """An idle client sees the end of the stream, not a connection that is torn."""
    with serve(authority) as collector:
        body = GOLDEN[Signal.TRACES]
        with connect(collector.http, client_context(authority)) as connection:
            connection.sendall(
                b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                + f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            collector.stop()
            assert connection.recv(1) == b""


def test_goodbye_of_the_client_is_answered(collector: Collector, authority: Authority) -> None:
    """A client that ends TLS and keeps the socket gets our end."""
    connection = connect(collector.http, client_context(authority))
    raw = connection.unwrap()
    assert raw.recv(1) == b""
    raw.close()


def test_certificates_are_exchanged_under_load(authority: Authority) -> None:
    """New connections see the new certificate, no request fails meanwhile, and those that are open go on."""
    body = GOLDEN[Signal.TRACES]
    with serve(authority, reload_interval=Duration(60)) as collector:
        context = client_context(authority)
        first = connect(collector.http, context)
        done = threading.Event()
        statuses: list[int] = []

        def load() -> None:
            while not done.is_set():
                statuses.append(post(collector.http, client_context(authority), body))

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        serials = [_serial(collector.http, authority)]
        for _ in range(5):
            authority.issue()
            collector.timer.fire()
            serials.append(_serial(collector.http, authority))
        done.set()
        for thread in threads:
            thread.join()
        assert len(set(serials)) == 6
        assert set(statuses) == {200}
        first.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
        assert first.recv(4096).startswith(b"HTTP/1.1 404")
        first.close()


def _serial(address: Address, authority: Authority) -> str:
    with connect(address, client_context(authority)) as connection:
        certificate = connection.getpeercert()
        assert certificate is not None
        return str(certificate["serialNumber"])


def test_certificate_is_exchanged_when_told(authority: Authority) -> None:
    """What SIGHUP leaves as it is looks at its files: also where reload_interval says nothing."""
    with serve(authority) as collector:
        before = _serial(collector.http, authority)
        collector.receiver.refresh()
        assert before == _serial(collector.http, authority)
        authority.issue()
        collector.receiver.refresh()
        assert before != _serial(collector.http, authority)
        assert post(collector.http, client_context(authority), GOLDEN[Signal.TRACES]) == 200


def test_client_authority_is_exchanged(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """client_ca_file_reload: clients of a new authority are served; a torn file changes nothing and is logged once."""
    (folder := Path(authority.file).parent / "second").mkdir()
    second = Authority(folder)
    trusted = Path(authority.file).parent / "clients.pem"
    trusted.write_text(authority.pem)
    context = client_context(authority)
    context.load_cert_chain(*second.issue("client.example", file="client"))
    tls = TLSServer(**authority.issue().keys, client_ca_file=str(trusted), client_ca_file_reload=True)
    with Collector("native", http={"tls": tls}) as collector:
        with pytest.raises(OSError, match="unknown ca"):
            post(collector.http, context, GOLDEN[Signal.TRACES])
        trusted.write_text(second.pem)
        collector.timer.fire()
        assert post(collector.http, context, GOLDEN[Signal.TRACES]) == 200
        trusted.write_text("torn")
        with caplog.at_level(logging.WARNING):
            collector.timer.fire()
            collector.timer.fire()
        assert post(collector.http, context, GOLDEN[Signal.TRACES]) == 200
    torn = [record for record in caplog.records if "not reloaded" in record.getMessage()]
    assert len(torn) == 1


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            {"client_ca_file": "/nowhere"},
            "failed to load client CA CertPool: open /nowhere: no such file or directory",
        ),
        ({"cert_file": "/nowhere"}, "failed to load TLS cert and key: open /nowhere: no such file"),
        ({"key_file": "other"}, "private key does not match public key"),
    ],
)
def test_files_that_cannot_be_used_stop_the_start(
    authority: Authority, keys: dict[str, str], text: str
) -> None:
    """The message says which file, and what is wrong with it."""
    keys = {
        name: authority.issue(file="other").key if value == "other" else value for name, value in keys.items()
    }
    collector = serve(authority, **keys)
    with pytest.raises(StartError) as caught:
        collector.receiver.start()
    collector.stop()
    assert text in str(caught.value)
