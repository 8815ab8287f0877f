"""An editor's language server, given what `spansieve schema` prints, completes and checks a configuration."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "editor"
VERSION = "1.25.0"


class LanguageServer:
    """yaml-language-server over its standard input and output; every file has the schema.

    Args:
        schema: path of it.
        folder: of the files that are opened, none of which is written.
    """

    def __init__(self, schema: Path, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._settings = {
            "yaml": {"validate": True, "completion": True, "schemas": {schema.as_uri(): "*.yaml"}}
        }
        self._process = subprocess.Popen(
            ["node", "node_modules/yaml-language-server/bin/yaml-language-server", "--stdio"],
            cwd=WORK,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._call("initialize", {"processId": os.getpid(), "rootUri": None, "capabilities": {}})
        self._send(method="initialized", params={})
        self._send(method="workspace/didChangeConfiguration", params={"settings": self._settings})
        # The settings are in force when the first mistake is seen.
        self._check_until("x: 1\n", bool)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.communicate()

    def complete(self, text: str) -> set[str]:
        """Return what is offered at the `|` in text."""
        before, _, after = text.partition("|")
        lines = before.split("\n")
        position = {"line": len(lines) - 1, "character": len(lines[-1])}
        document = {"uri": self._open(before + after)}
        found = self._call("textDocument/completion", {"textDocument": document, "position": position})
        return {item["label"] for item in found["items"]}

    def check(self, text: str) -> dict[int, str]:
        """Return messages by line, from 0."""
        found = self._check_until(text, lambda diagnostics: True)
        return {each["range"]["start"]["line"]: each["message"] for each in found}

    def _check_until(self, text: str, is_enough: Callable[[Any], bool]) -> Any:
        uri = self._open(text)
        told = self._read_until(
            lambda message: (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"]["uri"] == uri
                and is_enough(message["params"]["diagnostics"])
            )
        )
        return told["params"]["diagnostics"]

    def _open(self, text: str) -> str:
        uri = (self._folder / f"{next(self._numbers)}.yaml").as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self._send(method="textDocument/didOpen", params={"textDocument": document})
        return uri

    def _call(self, method: str, params: Mapping[str, Any]) -> Any:
        number = next(self._numbers)
        self._send(id=number, method=method, params=params)
        return self._read_until(lambda message: message.get("id") == number and "method" not in message)[
            "result"
        ]

    def _read_until(self, is_wanted: Callable[[Mapping[str, Any]], bool]) -> Any:
        while not is_wanted(message := self._read()):
            if "id" in message and message.get("method") == "workspace/configuration":
                answers = [self._settings.get(item["section"]) for item in message["params"]["items"]]
                self._send(id=message["id"], result=answers)
            elif "id" in message and "method" in message:
                self._send(id=message["id"], result=None)
        return message

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        length = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self._process.stdout.read(length))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    """A language server with the schema of this build."""
    if not shutil.which("npm"):
        pytest.skip("needs Node")
    WORK.mkdir(parents=True, exist_ok=True)
    package = f"yaml-language-server@{VERSION}"
    subprocess.run(
        ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", ".", package],
        cwd=WORK,
        check=True,
    )
    folder = tmp_path_factory.mktemp("editor")
    schema = folder / "schema.json"
    with schema.open("wb") as file:
        subprocess.run([sys.executable, "-m", "collector", "schema"], cwd=ROOT, stdout=file, check=True)
    running = LanguageServer(schema, folder)
    yield running
    running.close()


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("proc|", {"processors", "receivers", "service"}),
        ("processors:\n  |", {"batch", "memory_limiter", "probabilistic_sampler"}),
        ("processors:\n  batch/two:\n    |", {"timeout", "send_batch_size", "send_batch_max_bytes"}),
        ("processors:\n  probabilistic_sampler:\n    mode: |", {"hash_seed", "sdk_ratio"}),
        ("processors:\n  probabilistic_sampler:\n    fail_closed: |", {"true", "false"}),
        ("exporters:\n  debug:\n    verbosity: |", {"basic", "normal", "detailed"}),
        ("receivers:\n  otlp:\n    protocols:\n      grpc:\n        |", {"endpoint", "keepalive"}),
        ("service:\n  pipelines:\n    |", {"traces", "metrics", "logs"}),
        ("service:\n  telemetry:\n    logs:\n      level: |", {"debug", "info", "warn"}),
    ],
)
def test_completes(server: LanguageServer, text: str, offered: set[str]) -> None:
    """Sections, types, keys at every depth, switches and choices."""
    assert offered <= server.complete(text)


def test_checks(server: LanguageServer) -> None:
    """Mistakes are underlined where they are, older names told, references let pass."""
    text = """\
processors:
  batch:
    timeout: 5
    send_batch_size: ${env:SIZE:-512}
  btach:
exporters:
  otlphttp: {endpoint: "http://x"}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlphttp]}
"""
    found = server.check(text)
    assert {2, 4, 6} == set(found)
    assert "btach" in found[4]
    assert "An older name of otlp_http." == found[6]
