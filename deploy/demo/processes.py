"""The processes of the demonstration: each ends when its standard input does, or with the one who started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from prometheus_client.parser import text_string_to_metric_families

from deploy.demo.http_client import get

ROOT = Path(__file__).parents[2]

_STOP_S = 30.0


class Program:
    """A module of this package that prints its port, and stops when its standard input ends."""

    def __init__(self, module: str, folder: Path, *arguments: str, **environment: str) -> None:
        with open(folder / f"{module}.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"deploy.demo.{module}", *arguments],
                cwd=ROOT,
                env={**os.environ, "OTEL_PYTHON_LOG_LEVEL": "warning", **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._process.stdout is not None  # a pipe, as asked for
        line = self._process.stdout.readline()
        if not line:
            self.stop()
            raise RuntimeError(f"{module} did not start:\n{(folder / f'{module}.log').read_text()}")
        self.port = int(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Let the program finish; safe twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        _wait(self._process)


class Spansieve:
    """A running collector.

    Args:
        command: what runs it instead of the checkout, with config.

    Attributes:
        ready_ms: from the start of the process until it took requests.
        grpc, http: addresses of its receivers.
        health: address of the health check.
        log: its lines so far.
    """

    def __init__(
        self, config: Path, *, command: Sequence[str] = (), cwd: Path = ROOT, **environment: str
    ) -> None:
        start_s = time.monotonic()
        self._process = subprocess.Popen(
            command or [sys.executable, "-m", "collector", "--config", str(config)],
            cwd=cwd,
            env={**os.environ, **environment},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.log: list[str] = []
        self.grpc = self.http = self.health = self._metrics = ""
        self._is_ready = False
        has_started = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(has_started,), daemon=True)
        self._reader.start()
        has_started.wait(_STOP_S)
        if not self._is_ready:
            self.stop()
            raise RuntimeError("spansieve did not start:\n" + "".join(self.log))
        self.ready_ms = (time.monotonic() - start_s) * 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._process.send_signal(number)

    def stop(self) -> int:
        """Drain, stop and return the exit status; safe twice."""
        if self._process.poll() is None:
            self.send(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Return the exit status once the process has ended."""
        status = _wait(self._process)
        self._reader.join()
        return status

    def samples(self) -> list[Any]:
        """Return the samples of its /metrics page, `_total` taken off."""
        families = text_string_to_metric_families(get(self._metrics, "/metrics"))
        return [
            sample._replace(name=sample.name.removesuffix("_total"))
            for family in families
            for sample in family.samples
        ]

    def peak_rss_bytes(self) -> int:
        """Return the largest resident set so far."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def _read(self, has_started: threading.Event) -> None:
        assert self._process.stderr is not None  # a pipe, as asked for
        with self._process.stderr as stderr:
            for line in stderr:
                self.log.append(line)
                self._note(line.rstrip("\n").split("\t"))
                if "Everything is ready" in line:
                    self._is_ready = True
                    has_started.set()
        has_started.set()

    def _note(self, parts: list[str]) -> None:
        fields: Mapping[str, str] = json.loads(parts[-1]) if parts[-1].startswith("{") else {}
        event = parts[2] if len(parts) > 2 else ""
        if event == "Starting GRPC server":
            self.grpc = fields["endpoint"]
        elif event == "Starting HTTP server":
            self.http = fields["endpoint"]
        elif event == "listening" and fields["otelcol.component.id"] == "telemetry/metrics":
            self._metrics = fields["endpoint"]
        elif event == "listening" and fields["otelcol.component.id"] == "health_check":
            self.health = fields["endpoint"]


def _wait(process: subprocess.Popen[Any]) -> int:
    try:
        return process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
