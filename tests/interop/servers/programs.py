"""The servers: how each is built, once for each state of its files, and run."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from tests.interop.sdk.programs import LANGUAGES, PIP, Language, build

_HERE = Path(__file__).parent
_STOP_S = 60.0

GRPCIO = ("1.62.3", "1.68.1", "1.76.0", "1.80.0", "1.82.0", "1.85.0")
"""Releases that fail a compression that they do not know in one way, and in another since 1.82."""


def _like_sdk(language: str, source: str, **changed: Any) -> Language:
    """Return a server that is built as the SDK's program of a language is."""
    return dataclasses.replace(
        LANGUAGES[language], name=f"server-{language}", source=source, sources=_HERE / language, **changed
    )


SERVERS = {
    **{
        f"grpcio {release}": Language(
            name=f"server-grpcio-{release}",
            tools=(),
            manifest=(),
            source="server.py",
            fetch=((sys.executable, "-m", "venv", "venv"), (*PIP, f"grpcio=={release}")),
            compile=(),
            run=("venv/bin/python", "server.py"),
            sources=_HERE / "python",
        )
        for release in GRPCIO
    },
    "go": _like_sdk("go", "server.go"),
    "java": _like_sdk(
        "java",
        "Server.java",
        compile=(("javac", "-cp", "lib/*", "-d", "classes", "Server.java"),),
        run=("java", "-cp", "classes:lib/*", "Server"),
    ),
    "node": _like_sdk("node", "server.mjs", run=("node", "server.mjs")),
}


class Server:
    """A server, running.

    Args:
        answer: message that it answers each request with.

    Attributes:
        port: where it listens, on 127.0.0.1.
        received: the messages so far.
    """

    def __init__(self, name: str, answer: bytes) -> None:
        language = SERVERS[name]
        folder = build(language)
        command = [*language.run, answer.hex()]
        if "/" in command[0]:
            command[0] = str(folder / command[0])
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.received: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate(timeout=_STOP_S)
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.received.append(bytes.fromhex(line))
