"""The load generator and the sink, programs in C that are built with the tests: `make bench-tools`."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from bench.processes import ROOT, MissingTool, cpu_seconds, pinned
from collector.ids import Signal

_FOLDER = ROOT / "build" / "bench"
_ANSWER_TIMEOUT_S = 30.0
_LOAD_SLACK_S = 90.0
BUSY_SHARE = 0.6
"""Above this share of its core the load generator or the sink may be what limits a result."""


def find(name: str) -> str:
    """Return the path of a program of ours.

    Raises:
        MissingTool: it was not built.
    """
    path = _FOLDER / name
    if not path.exists():
        raise MissingTool(f"{path.relative_to(ROOT)} is not there: run `make bench-tools`")
    return str(path)


class Sent(NamedTuple):
    """What the load generator says of a run, of which the names are its own.

    Attributes:
        ok_items: acknowledged, after the warm-up.
        total_items, total_ok_items: sent and acknowledged in all.
        late, unsent: requests that were sent after they were due, and never.
        overslept: those that were late though a stream was free: the load generator's own doing.
        polled_seconds: of cpu_seconds, spent in waiting awake.
        latency_us: from when a request should have been sent to its acknowledgement, by percentile.
    """

    requests: int
    items: int
    ok_items: int
    total_items: int
    total_ok_items: int
    rejected_items: int
    failed: int
    late: int
    overslept: int
    unsent: int
    seconds: float
    cpu_seconds: float
    polled_seconds: float
    latency_us: dict[str, float]
    refused: dict[str, int]

    @property
    def refused_share(self) -> float:
        """How much of what was sent was not acknowledged."""
        return 1 - self.total_ok_items / self.total_items if self.total_items else 0.0

    @property
    def busy_share(self) -> float:
        """How much of its core it needed; what it polled away it did not need."""
        return (self.cpu_seconds - self.polled_seconds) / self.seconds if self.seconds else 0.0


class Load(NamedTuple):
    """One way to load a system.

    Attributes:
        bodies: a file of [length, 4 bytes, big-endian][request].
    """

    signal: Signal
    bodies: Path
    core: int
    streams: int = 1
    connections: int = 4
    encoding: str = "none"

    def send(
        self,
        port: int,
        *,
        duration_s: float | None = None,
        requests: int | None = None,
        rate: float | None = None,
        seed: int = 1,
        keep_ids: bool = False,
        retry: bool = False,
        poll: bool = False,
    ) -> Sent:
        """Load the system at port for a time, or with a number of requests.

        Args:
            rate: items a second, each request at its time whatever the answers do; without it each stream sends its
                next request once the one before is answered.
            retry: send again what is refused for now, as SDKs do.
            poll: wait awake, so that a latency does not hold how long the load generator takes to wake.

        Raises:
            RuntimeError: the load generator failed, with what it said.
        """
        command = [find("spansieve-load"), "--target", f"127.0.0.1:{port}", "--protocol", "grpc"]
        command += ["--signal", self.signal.value, "--bodies", str(self.bodies), "--encoding", self.encoding]
        command += ["--streams", str(self.streams), "--connections", str(self.connections)]
        command += ["--duration", str(duration_s)] if requests is None else ["--requests", str(requests)]
        command += ["--rate", str(round(rate))] if rate is not None else []
        command += ["--seed", str(seed), *(["--keep-ids"] if keep_ids else [])]
        command += [*(["--retry"] if retry else []), *(["--poll"] if poll else [])]
        result = subprocess.run(
            pinned(self.core, command),
            capture_output=True,
            text=True,
            check=False,
            timeout=(duration_s or 0) + _LOAD_SLACK_S,
        )
        if result.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{result.stderr}")
        document = json.loads(result.stdout)
        return Sent(**{name: document[name] for name in Sent._fields})


class Received(NamedTuple):
    """What a sink says of what it was sent since its last reset."""

    requests: int
    items: int
    payload_bytes: int
    wire_bytes: int
    encodings: dict[str, int]

    @classmethod
    def nothing(cls) -> Self:
        """Return the report of a sink that was sent nothing."""
        return cls(0, 0, 0, 0, {})

    @classmethod
    def read(cls, document: dict[str, Any]) -> Self:
        """Return a report of the sink's."""
        return cls(
            **{
                name: sum(document["items"].values()) if name == "items" else document[name]
                for name in cls._fields
            }
        )


class Sink:
    """A backend that counts.

    Args:
        record: a file that all requests are written to, see `read_record`.
    """

    def __init__(self, core: int, record: Path | None = None) -> None:
        command = [find("spansieve-sink"), "--listen", "127.0.0.1:0"]
        command += ["--record", str(record)] if record else []
        self._process = subprocess.Popen(
            pinned(core, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._unread = b""
        self.pid = self._process.pid
        word, port, *_ = self._read_line().split()
        if word != "listening":
            raise RuntimeError(f"expected the sink to say where it listens, it said {word!r}")
        self.port = int(port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def tell(self, command: str) -> None:
        """Give it a command, such as `stop` or `ok`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{command}\n".encode())
        except BrokenPipeError as error:
            raise RuntimeError("the sink has ended") from error

    def report(self) -> Received:
        """Return what it was sent since the last reset."""
        self.tell("report")
        return Received.read(json.loads(self._read_line()))

    def cpu_seconds(self) -> float:
        """Return its CPU time so far."""
        return cpu_seconds(self.pid)

    def settle(self, expected: int | None, *, quiet_s: float = 0.3, timeout_s: float = 30.0) -> Received:
        """Return what it was sent once that is all: expected items, or no more for quiet_s."""
        deadline = time.monotonic() + timeout_s
        last = self.report()
        changed = time.monotonic()
        while last.items != expected and time.monotonic() < min(changed + quiet_s, deadline):
            time.sleep(0.01)
            report = self.report()
            if report != last:
                last, changed = report, time.monotonic()
        return last

    def stop(self) -> None:
        """End it; what it has recorded is complete then."""
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate(timeout=_ANSWER_TIMEOUT_S)

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + _ANSWER_TIMEOUT_S
        while b"\n" not in self._unread:
            readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            block = os.read(descriptor, 65536) if readable else b""
            if not block:
                raise RuntimeError("the sink does not answer")
            self._unread += block
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode()


def read_record(path: Path) -> Sequence[bytes]:
    """Return the requests of a sink's record: [signal, 1 byte][length, 4 bytes, big-endian][request], repeated."""
    raw = path.read_bytes()
    requests = []
    position = 0
    while position < len(raw):
        length = int.from_bytes(raw[position + 1 : position + 5], "big")
        requests.append(raw[position + 5 : position + 5 + length])
        position += 5 + length
    return requests
