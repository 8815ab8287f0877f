"""The gRPC exporter over TLS: against grpcio, and against sockets that break the handshake."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from collector.config.fields import Duration, Secret
from collector.config.tls import TLSClient
from collector.errors import StartError
from collector.exporters.otlp_grpc import Compression, Config, OtlpGrpc, Retry
from tests.support.certificates import Authority, Files
from tests.unit.exporterhelper.support import TracesExporter, traces, values, wait_until
from tests.unit.exporters.test_otlp_grpc_exporter import Server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that nobody trusts unasked."""
    return Authority(tmp_path)


@contextlib.contextmanager
def serve(files: Files, clients: Authority | None = None) -> Iterator[Server]:
    """Run a grpcio server that shows files, and wants a certificate of clients where it is given them."""
    server = Server(
        credentials=grpc.ssl_server_credentials(
            [(Path(files.key).read_bytes(), Path(files.cert).read_bytes())],
            root_certificates=clients.pem.encode() if clients else None,
            require_client_auth=clients is not None,
        )
    )
    try:
        yield server
    finally:
        server.stop()


class Scene(TracesExporter):
    """A started exporter to 127.0.0.1."""

    def __init__(self, port: int, *, endpoint: str = "127.0.0.1:{}", authority: str = "", **tls: Any) -> None:
        config = Config(
            endpoint=endpoint.format(port),
            authority=authority,
            tls=TLSClient(**tls),
            retry_on_failure=Retry(enabled=True, initial_interval=Duration(0.02)),
            compression=Compression.NONE,
        )
        super().__init__(lambda made: OtlpGrpc(config, made))


@pytest.mark.parametrize("endpoint", ["127.0.0.1:{}", "https://127.0.0.1:{}", "dns:///127.0.0.1:{}"])
def test_request_arrives_over_tls(authority: Authority, endpoint: str) -> None:
    """TLS is the default, and what https:// says; the message arrives as it is."""
    with serve(authority.issue()) as server:
        for keys in ({"ca_file": authority.file}, {"ca_pem": Secret(authority.pem)}):
            scene = Scene(server.port, endpoint=endpoint, **keys)
            scene.push()
            assert scene.stop()["otelcol_exporter_sent_spans"] > 0
    assert [traces(), traces()] == [body for _, body, _ in server.calls]


def test_large_requests_flow(authority: Authority) -> None:
    """Messages of many records pass, one behind the other on one connection."""
    request = traces(n_spans=30_000)
    with serve(authority.issue()) as server:
        scene = Scene(server.port, ca_file=authority.file)
        for n in range(1, 4):
            scene.push(request)
            wait_until(lambda: scene.sent == 30_000 * n)  # noqa: B023
        scene.stop()
    assert [request] * 3 == [body for _, body, _ in server.calls]


@pytest.mark.parametrize(
    ("names", "kind", "keys", "text"),
    [
        (("127.0.0.1",), "", {}, "failed to verify certificate: unable to get local issuer certificate"),
        (
            ("other.example",),
            "",
            {"ca": True},
            "failed to verify certificate: IP address mismatch, it is not valid for 127.0.0.1",
        ),
        (
            ("localhost",),
            "",
            {"ca": True, "server_name_override": "wrong.example"},
            "failed to verify certificate: hostname mismatch, it is not valid for wrong.example",
        ),
        (("127.0.0.1",), "expired", {"ca": True}, "failed to verify certificate: certificate has expired"),
    ],
)
def test_certificate_that_is_not_the_servers_is_refused_and_nothing_is_lost(
    authority: Authority, names: tuple[str, ...], kind: str, keys: dict[str, Any], text: str
) -> None:
    """The log says why, the server sees nothing, and the request waits for another try."""
    keys = dict(keys)
    if keys.pop("ca", False):
        keys["ca_file"] = authority.file
    with serve(authority.expired(*names) if kind else authority.issue(*names)) as server:
        scene = Scene(server.port, **keys)
        scene.push()
        wait_until(lambda: text in scene.recorder.text)
        assert server.calls == []
        assert values(scene.exporter.samples()).get("otelcol_exporter_send_failed_spans", 0) == 0
        scene.exporter.shutdown(0)


def test_name_is_asked_for_and_verified(authority: Authority) -> None:
    """`server_name_override`, or else `authority`, is asked for and verified."""
    with serve(authority.issue("backend.example")) as server:
        for keys in ({"server_name_override": "backend.example"}, {"authority": "backend.example:443"}):
            scene = Scene(server.port, ca_file=authority.file, **keys)
            scene.push()
            assert scene.stop()["otelcol_exporter_sent_spans"] > 0


def test_insecure_skip_verify_takes_any_certificate(authority: Authority) -> None:
    """Nobody's certificate for another name is taken."""
    with serve(authority.expired("other.example")) as server:
        scene = Scene(server.port, insecure_skip_verify=True)
        scene.push()
        assert scene.stop()["otelcol_exporter_sent_spans"] > 0


def test_client_certificate_is_shown_and_read_again(authority: Authority) -> None:
    """A server that wants a certificate gets the one that stands in the file when the connection is made."""
    shown: list[Any] = []
    with serve(authority.issue(), clients=authority) as server:

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            shown.append(context.auth_context()["x509_subject_alternative_name"])
            return b""

        server.answer = answer
        files = authority.issue("first.example", file="client")
        scene = Scene(server.port, ca_file=authority.file, reload_interval=Duration(60), **files.keys)
        scene.push()
        wait_until(lambda: scene.sent == 1)
        scene.exporter.shutdown(20)
        authority.issue("second.example", file="client")
        scene = Scene(server.port, ca_file=authority.file, reload_interval=Duration(60), **files.keys)
        authority.issue("third.example", file="client")
        scene.pass_time()
        Path(files.key).write_text("-----BEGIN PRIVATE KEY-----\ntorn")
        scene.pass_time()
        scene.pass_time()
        assert scene.recorder.text.count("failed to parse private key") == 1
        scene.push()
        assert scene.stop()["otelcol_exporter_sent_spans"] > 0
    assert [[b"first.example"], [b"third.example"]] == shown


def test_missing_client_certificate_is_told(authority: Authority) -> None:
    """The server's alert, which comes after the handshake is over for the client, is in the log."""
    context = server_context(authority, verify_mode=ssl.CERT_REQUIRED)
    context.set_alpn_protocols(["h2"])
    server = Odd(context, lambda connection: connection.recv(1))
    scene = Scene(server.port, ca_file=authority.file)
    scene.push()
    wait_until(lambda: "tls: tlsv13 alert certificate required" in scene.recorder.text)
    scene.exporter.shutdown(0)
    server.stop()


class Odd:
    """A TLS server that does what is asked once the handshake is over, connection after connection."""

    def __init__(self, context: ssl.SSLContext | None, then: Any) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._context = context
        self._then = then
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                raw, _ = self._listening.accept()
            except OSError:
                return
            with raw, contextlib.suppress(OSError):
                raw.settimeout(60)
                if self._context is None:
                    self._then(raw)
                else:
                    with self._context.wrap_socket(raw, server_side=True) as secured:
                        self._then(secured)

    def stop(self) -> None:
        """End it."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


def server_context(authority: Authority, **limits: Any) -> ssl.SSLContext:
    """Return a context that shows a certificate for 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue())
    for name, value in limits.items():
        setattr(context, name, value)
    return context


@pytest.mark.parametrize(
    ("make", "then", "text"),
    [
        (lambda a: server_context(a), lambda s: s.recv(1), "missing selected ALPN property"),
        (
            lambda a: None,
            lambda s: s.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "tls: wrong version number",
        ),
        (lambda a: None, lambda s: s.recv(1 << 16), "the server closed the connection during the handshake"),
        (
            lambda a: server_context(a, maximum_version=ssl.TLSVersion.TLSv1_2),
            lambda s: s.recv(1),
            "protocol version",
        ),
    ],
    ids=["no ALPN", "no TLS", "closed", "old"],
)
def test_broken_handshake_is_told(authority: Authority, make: Any, then: Any, text: str) -> None:
    """Whatever the server does, the log says what went wrong, and the request is tried again."""
    server = Odd(make(authority), then)
    scene = Scene(server.port, ca_file=authority.file, min_version="1.3")
    scene.push()
    wait_until(lambda: text in scene.recorder.text)
    scene.exporter.shutdown(0)
    server.stop()


def test_silent_handshake_ends_with_the_exporters_time(authority: Authority) -> None:
    """A server that takes the connection and says nothing holds a request no longer than its time limit."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        scene = Scene(listening.getsockname()[1], ca_file=authority.file)
        scene.push()
        scene.exporter.shutdown(0.2)  # ends the call in flight
    assert values(scene.exporter.samples())["otelcol_exporter_sent_spans"] == 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda a: {"ca_file": "/nowhere"}, "open /nowhere: no such file or directory"),
        (
            lambda a: {"ca_pem": Secret("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
            "failed to load TLS config: ",
        ),
        (
            lambda a: {"cert_file": a.issue().cert, "key_file": a.issue(file="other").key},
            "private key does not match public key",
        ),
        (lambda a: {"curve_preferences": ("X25519MLKEM768", "P256")}, None),
        (lambda a: {"cipher_suites": ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)}, None),
    ],
)
def test_files_that_cannot_be_used_stop_the_start(authority: Authority, make: Any, text: str | None) -> None:
    """The message says which file, and what is wrong with it; names that OpenSSL knows are no reason."""
    if text is None:
        with contextlib.suppress(StartError):  # an OpenSSL without this curve says so
            Scene(1, **make(authority)).exporter.shutdown(0)
        return
    with pytest.raises(StartError) as caught:
        Scene(1, **make(authority))
    assert text in str(caught.value)
