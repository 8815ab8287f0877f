"""The HTTP exporter against the standard library's server behind TLS."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.config.fields import Duration, Secret
from collector.config.tls import TLSClient
from collector.errors import StartError
from collector.exporters.otlp_http import Compression, Config, OtlpHttp, Retry
from tests.support.certificates import Authority
from tests.unit.exporterhelper.support import TracesExporter, traces, wait_until
from tests.unit.exporters.test_otlp_http_exporter import Server


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority that nobody trusts unasked."""
    return Authority(tmp_path)


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server, in plain text until it is told otherwise."""
    made = Server()
    yield made
    made.stop()


def serve(
    server: Server, authority: Authority, *names: str, files: Any = None, **limits: Any
) -> ssl.SSLContext:
    """Put TLS in front of server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*(files or authority.issue(*names)))
    for name, value in limits.items():
        setattr(context, name, value)
    server.secure(context)
    return context


class Scene(TracesExporter):
    """A started exporter to https://127.0.0.1."""

    def __init__(self, port: int, scheme: str = "https", **tls: Any) -> None:
        config = Config(
            endpoint=f"{scheme}://127.0.0.1:{port}",
            tls=TLSClient(**tls),
            retry_on_failure=Retry(enabled=True, initial_interval=Duration(0.02)),
            compression=Compression.NONE,
        )
        super().__init__(lambda made: OtlpHttp(config, made))


def test_request_arrives_over_tls(server: Server, authority: Authority) -> None:
    """An authority by file or by text is trusted, and the body arrives as it is."""
    serve(server, authority)
    for keys in ({"ca_file": authority.file}, {"ca_pem": Secret(authority.pem)}):
        scene = Scene(server.port, **keys)
        scene.push()
        assert scene.stop()["otelcol_exporter_sent_spans"] > 0
    assert [traces(), traces()] == [body for _, body, _ in server.calls]


def test_connection_is_used_again(server: Server, authority: Authority) -> None:
    """A handshake is made once, not for each request."""
    serve(server, authority)
    scene = Scene(server.port, ca_file=authority.file)
    for sent in range(1, 5):
        scene.push()
        wait_until(lambda: scene.sent == sent)  # noqa: B023
    scene.stop()
    assert server.connections == 1


@pytest.mark.parametrize(
    ("names", "kind", "keys", "text"),
    [
        (("localhost", "127.0.0.1"), "", {}, "failed to verify certificate: unable to get local issuer"),
        (("other.example",), "", {"ca": True}, "is not valid for '127.0.0.1'"),
        (
            ("localhost",),
            "",
            {"ca": True, "server_name_override": "wrong.example"},
            "is not valid for 'wrong.example'",
        ),
        (("127.0.0.1",), "expired", {"ca": True}, "failed to verify certificate: certificate has expired"),
    ],
)
def test_certificate_that_is_not_the_servers_is_refused_and_nothing_is_lost(
    server: Server,
    authority: Authority,
    names: tuple[str, ...],
    kind: str,
    keys: dict[str, Any],
    text: str,
) -> None:
    """The log says why, the request is tried again, and arrives once the server shows another certificate."""
    keys = dict(keys)
    if keys.pop("ca", False):
        keys["ca_file"] = authority.file
    context = serve(server, authority, files=authority.expired(*names) if kind else authority.issue(*names))
    scene = Scene(server.port, **keys)
    scene.push()
    wait_until(lambda: text in scene.recorder.text)
    assert server.calls == []
    if "ca_file" in keys:
        context.load_cert_chain(*authority.issue("127.0.0.1", "wrong.example"))
        wait_until(lambda: bool(server.calls))
        assert scene.stop().get("otelcol_exporter_send_failed_spans", 0) == 0
    else:
        scene.exporter.shutdown(0)


def test_other_name_is_asked_for_and_verified(server: Server, authority: Authority) -> None:
    """`server_name_override` is the name in the handshake, and the one that the certificate must have."""
    context = serve(server, authority, "backend.example")
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    scene = Scene(server.port, ca_file=authority.file, server_name_override="backend.example")
    scene.push()
    assert scene.stop()["otelcol_exporter_sent_spans"] > 0
    assert asked == ["backend.example"]


@pytest.mark.filterwarnings("default::urllib3.exceptions.InsecureRequestWarning")
def test_insecure_skip_verify_takes_any_certificate(server: Server, authority: Authority) -> None:
    """Nobody's certificate for another name is taken."""
    serve(server, authority, files=authority.expired("other.example"))
    scene = Scene(server.port, insecure_skip_verify=True)
    scene.push()
    assert scene.stop()["otelcol_exporter_sent_spans"] > 0


def test_client_certificate_is_shown(server: Server, authority: Authority) -> None:
    """A server that wants a certificate gets it, from a file or from text; without one it refuses."""
    context = serve(server, authority, verify_mode=ssl.CERT_REQUIRED)
    context.load_verify_locations(authority.file)
    files = authority.issue("client.example", file="client")
    pem = {"cert_pem": Secret(Path(files.cert).read_text()), "key_pem": Secret(Path(files.key).read_text())}
    for keys in (files.keys, pem):
        scene = Scene(server.port, ca_file=authority.file, **keys)
        scene.push()
        assert scene.stop()["otelcol_exporter_sent_spans"] > 0
    scene = Scene(server.port, ca_file=authority.file)
    scene.push()
    wait_until(lambda: "certificate required" in scene.recorder.text)
    scene.exporter.shutdown(0)


def test_certificate_is_read_again(server: Server, authority: Authority) -> None:
    """A new client certificate is shown on the next connection; a broken one is logged and not used."""
    context = serve(server, authority, verify_mode=ssl.CERT_REQUIRED)
    context.load_verify_locations(authority.file)
    files = authority.issue("first.example", file="client")
    scene = Scene(server.port, ca_file=authority.file, reload_interval=Duration(60), **files.keys)
    scene.push()
    wait_until(lambda: scene.sent == 1)
    authority.issue("second.example", file="client")
    scene.pass_time()
    scene.push()
    wait_until(lambda: scene.sent == 2)
    Path(files.cert).write_text("torn")
    scene.pass_time()
    scene.pass_time()
    assert scene.recorder.text.count("holds no certificate in PEM format") == 1
    scene.push()
    wait_until(lambda: scene.sent == 3)
    scene.stop()
    assert [(("DNS", "first.example"),), (("DNS", "second.example"),)] == [
        peer["subjectAltName"] for peer in server.peers
    ]


def test_versions_hold(server: Server, authority: Authority) -> None:
    """A server below min_version, or above max_version, is refused by name of the cause."""
    serve(server, authority, maximum_version=ssl.TLSVersion.TLSv1_2)
    scene = Scene(server.port, ca_file=authority.file, min_version="1.3")
    scene.push()
    wait_until(lambda: "tls: tlsv1 alert protocol version" in scene.recorder.text)
    scene.exporter.shutdown(0)
    scene = Scene(server.port, ca_file=authority.file, max_version="1.2")
    scene.push()
    assert scene.stop()["otelcol_exporter_sent_spans"] > 0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda a: {"ca_file": "/nowhere"},
            "failed to load CA CertPool File: open /nowhere: no such file or directory",
        ),
        (lambda a: {"ca_pem": Secret("zzz")}, "the PEM text holds no certificate in PEM format"),
        (
            lambda a: {"cert_file": a.issue().cert, "key_file": a.issue(file="other").key},
            "private key does not match public key",
        ),
        (lambda a: {"cert_file": a.issue().key, "key_file": a.issue().key}, "holds no certificate in PEM"),
        (lambda a: {"cert_file": a.issue().cert, "key_file": a.file}, "holds no private key in PEM format"),
    ],
)
def test_files_that_cannot_be_used_stop_the_start(authority: Authority, make: Any, text: str) -> None:
    """The message says which file, and what is wrong with it."""
    with pytest.raises(StartError) as caught:
        Scene(1, **make(authority))
    assert text in str(caught.value)


def test_insecure_leaves_the_scheme_to_decide(server: Server, authority: Authority) -> None:
    """`insecure: true` neither makes https:// plain text nor skips verification."""
    serve(server, authority)
    scene = Scene(server.port, insecure=True, insecure_skip_verify=True)
    scene.push()
    wait_until(lambda: "unable to get local issuer certificate" in scene.recorder.text)
    scene.exporter.shutdown(0)


def test_redirect_to_tls_is_followed_by_the_same_keys(server: Server, authority: Authority) -> None:
    """A plain endpoint that sends everyone to its TLS port: the section `tls` holds there, and so do the headers."""
    serve(server, authority)
    plain = Server()
    plain.status = 308
    plain.headers["Location"] = f"https://127.0.0.1:{server.port}/v1/traces"
    scene = Scene(plain.port, "http", ca_file=authority.file)
    for sent in (1, 2):
        scene.push()
        wait_until(lambda: scene.sent == sent)  # noqa: B023
    scene.stop()
    plain.stop()
    assert [traces(), traces()] == [body for _, body, _ in server.calls]
    assert server.connections == 1


def test_redirect_from_tls_to_plain_text_is_not_followed(server: Server, authority: Authority) -> None:
    """What was to be kept secret is not sent for all to read."""
    serve(server, authority)
    plain = Server()
    server.status = 307
    server.headers["Location"] = f"http://127.0.0.1:{plain.port}/v1/traces"
    scene = Scene(server.port, ca_file=authority.file)
    scene.push()
    assert scene.stop()["otelcol_exporter_send_failed_spans"] == 1
    plain.stop()
    assert plain.calls == []
    assert "it leads from TLS to plain text" in scene.recorder.text
