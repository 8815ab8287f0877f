"""What comes to the door and gets no further: storms of connections, and requests that nobody can take."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.native.library import has_net
from deploy.demo.processes import Spansieve
from tests.integration.harness import Client, arrived, h2_backend, make_config, start, wait_for, write

pytestmark = pytest.mark.skipif(not has_net(), reason="about the native transport")

FEW = 100
LIMITER = {"memory_limiter": {"check_interval": "20ms", "limit_mib": 4000}}


@contextmanager
def python_with(limit: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run Python below with another limit of open files: `ulimit` in its words."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nulimit {limit}\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(script))
        yield


def _open(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20.0)


def _refused(spansieve: Spansieve, name: str, **labels: str) -> float:
    return sum(
        sample.value
        for sample in spansieve.samples()
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def _lines(spansieve: Spansieve, text: str) -> list[str]:
    return [line for line in list(spansieve.log) if text in line]


def test_storm_of_connections_leaves_descriptors_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exporter connects, the limiter looks, the page answers and a reload reads its file, all during the storm."""
    path = tmp_path / "config.yaml"
    with h2_backend() as backend, ExitStack() as storm:
        port = int(backend.server_address[1])
        config = make_config(port, processors=LIMITER)
        with python_with(f"-n {FEW}", tmp_path, monkeypatch):
            spansieve = storm.enter_context(start(path, config))
        with Client(spansieve.grpc) as client:
            client.export(b"")  # connects, and gives the exporter nothing to do
            for address in (spansieve.http, spansieve.grpc):
                for _ in range(FEW):
                    storm.enter_context(_open(address))
            wait_for(
                lambda: _refused(spansieve, "spansieve_receiver_refused_connections", reason="descriptors")
            )
            client.send(3)
            wait_for(lambda: sorted(client.sent) == arrived(backend))
            write(path, make_config(port, processors={**LIMITER, "batch": {"timeout": "10ms"}}))
            spansieve.send(signal.SIGHUP)
            wait_for(lambda: _lines(spansieve, "Configuration reloaded."))
            wait_for(lambda: _lines(spansieve, "Connections refused: the process may open no more files"))
        assert [] == _lines(spansieve, "callback failed")
        assert len(os.listdir(f"/proc/{spansieve._process.pid}/fd")) < FEW


def test_soft_limit_of_files_becomes_the_hard_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell's 1024, say, is not what a collector is bound to."""
    path = tmp_path / "config.yaml"
    with (
        python_with(f"-Sn {FEW}", tmp_path, monkeypatch),
        start(path, make_config(9)) as spansieve,
    ):
        for line in Path(f"/proc/{spansieve._process.pid}/limits").read_text().splitlines():
            if line.startswith("Max open files"):
                soft, hard = line.split()[3:5]
                assert soft == hard != str(FEW)


def _post(address: str, path: str, body: bytes, **headers: str) -> int:
    with closing(http.client.HTTPConnection(address, timeout=20.0)) as connection:
        connection.request(
            "POST", path, body, {name.replace("_", "-"): text for name, text in headers.items()}
        )
        return connection.getresponse().status


def test_refusals_are_counted_and_told_with_what_to_do(tmp_path: Path) -> None:
    """Six spans with long prompts do not vanish without a word; however many are refused, it is one line a minute."""
    keys: dict[str, Any] = {
        "protocols": {
            "grpc": {"endpoint": "127.0.0.1:0", "max_connections": 1},
            "http": {"endpoint": "127.0.0.1:0", "max_request_body_size": 1000},
        }
    }
    with start(tmp_path / "config.yaml", make_config(9, otlp=keys)) as spansieve:
        protobuf = {"Content_Type": "application/x-protobuf"}
        for _ in range(3):
            assert 400 == _post(spansieve.http, "/v1/traces", bytes(1001), **protobuf)
        assert 404 == _post(spansieve.http, "/v1/profiles?key=secret", b"", **protobuf)
        assert 415 == _post(spansieve.http, "/v1/traces", b"", Content_Type="text/plain")
        assert 415 == _post(spansieve.http, "/v1/traces", b"", Content_Encoding="br", **protobuf)
        with _open(spansieve.grpc), _open(spansieve.grpc) as second:
            assert b"" == second.recv(1)
        counts = {
            reason: _refused(
                spansieve, "spansieve_receiver_refused_requests", transport="http", reason=reason
            )
            for reason in ("too_large", "unknown_path", "media_type", "encoding", "method")
        }
        assert {"too_large": 3, "unknown_path": 1, "media_type": 1, "encoding": 1, "method": 0} == counts
        assert 1 == _refused(
            spansieve, "spansieve_receiver_refused_connections", transport="grpc", reason="connections"
        )
        wait_for(lambda: _lines(spansieve, "Connections refused: there are as many as may be"))
        (line,) = _lines(spansieve, "Requests refused: a message is too large")
        for part in ("127.0.0.1:", '"requests": 3', "more than 1000 bytes", "max_request_body_size"):
            assert part in line
        (line,) = _lines(spansieve, "Requests refused: a path is unknown")
        assert r"POST \"/v1/profiles\"" in line
        assert "secret" not in "".join(spansieve.log)
