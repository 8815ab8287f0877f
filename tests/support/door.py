"""A receiver in front of queues, in the process of the test: what it answers, and what it passes on byte for byte."""

from __future__ import annotations

from collector.ids import Signal
from collector.native.library import lib
from collector.native.pipeline import Queue, Receiver, Verdict
from collector.native.runtime import Runtime, Worker


class Door:
    """A receiver in front of queues."""

    def __init__(self, *, rejects_requests: bool = False) -> None:
        runtime = Runtime()
        self._receiver = Receiver(runtime, rejects_requests=rejects_requests)
        self._worker = Worker(runtime)
        self._queues = {signal: Queue(runtime, signal, sizer="bytes", capacity=1 << 30) for signal in Signal}
        for signal, queue in self._queues.items():
            self._receiver.publish(signal, queue)

    def send(self, signal: Signal, body: bytes, *, is_json: bool = False) -> tuple[Verdict, list[bytes]]:
        """Return the answer to a request, and what went on of it."""
        payload = lib.SS_PAYLOAD_JSON if is_json else lib.SS_PAYLOAD_PROTOBUF
        verdict = self._receiver.accept(self._worker, signal, lib.SS_TRANSPORT_HTTP, payload, body)
        passed = []
        while (item := self._queues[signal].pop(0.0)) is not None:
            passed.append(bytes(item.view))
            self._queues[signal].done(item)
        return verdict, passed
