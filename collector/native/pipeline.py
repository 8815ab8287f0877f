"""Native consumers, wired back to front into the graph of a running collector."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from collector.ids import Signal
from collector.lean import Any, Enum, NamedTuple
from collector.native.codec import Encoding, encoding_number, encoding_of
from collector.native.errors import check, fail, new_error, raise_verdict
from collector.native.library import ffi, lib
from collector.native.ops import Op
from collector.native.runtime import Runtime, Worker

_NEVER_NS = (1 << 64) - 1


class Consumer:
    """Something that takes requests of one signal; keeps what is behind it alive."""

    def __init__(self, pointer: Any, *keep: object) -> None:
        if pointer == ffi.NULL:
            raise MemoryError
        self.pointer = ffi.gc(pointer, lib.ss_consumer_free)
        self._keep = keep

    def push(self, worker: Worker, request: bytes) -> None:
        """Push one serialized Export*ServiceRequest.

        Raises:
            Refused: retryable.
            PermanentError: trying again cannot help.
        """
        verdict = ffi.new("ss_verdict *")
        lib.ss_consumer_push(self.pointer, worker.pointer, ffi.from_buffer(request), len(request), verdict)
        raise_verdict(verdict)


def _pointers(consumers: Sequence[Consumer]) -> Any:
    return ffi.new("ss_consumer *[]", [consumer.pointer for consumer in consumers])


class Pipeline(Consumer):
    """Runs ops on each request and passes on what is kept."""

    def __init__(self, signal: Signal, ops: Sequence[Op], output: Consumer) -> None:
        array = ffi.new("ss_op *[]", [op.pointer for op in ops])
        pointer = lib.ss_pipeline_new(signal.number, array, len(ops), output.pointer)
        super().__init__(pointer, tuple(ops), output)


class Fanout(Consumer):
    """Gives each request to all outputs; the first failure is the answer."""

    def __init__(self, signal: Signal, outputs: Sequence[Consumer]) -> None:
        array = _pointers(outputs)
        super().__init__(lib.ss_fanout_new(signal.number, array, len(outputs)), tuple(outputs))


def join(signal: Signal, outputs: Sequence[Consumer]) -> Consumer:
    """Return one consumer for outputs: the only one itself, or a fan-out."""
    return outputs[0] if len(outputs) == 1 else Fanout(signal, outputs)


class Discard(Consumer):
    """Counts and discards."""

    def __init__(self, signal: Signal) -> None:
        super().__init__(lib.ss_discard_new(signal.number))

    @property
    def items(self) -> int:
        """Items discarded."""
        return int(lib.ss_discard_items(self.pointer))


class Batch(Consumer):
    """Gathers requests into batches and passes them on from a thread of its own."""

    def __init__(
        self,
        runtime: Runtime,
        signal: Signal,
        outputs: Sequence[Consumer],
        *,
        timeout_s: float,
        send_batch_size: int,
        send_batch_max_size: int,
        send_batch_max_bytes: int,
        metadata_names: Sequence[str] = (),
        max_combinations: int = 0,
    ) -> None:
        texts = [ffi.new("char[]", name.encode()) for name in metadata_names]
        names = ffi.new("char *[]", texts)
        config = ffi.new(
            "ss_batch_config *",
            {
                "timeout_ns": int(timeout_s * 1e9),
                "send_batch_size": send_batch_size,
                "send_batch_max_size": send_batch_max_size,
                "send_batch_max_bytes": send_batch_max_bytes,
                "metadata_names": names,
                "n_metadata_names": len(texts),
                "max_combinations": max_combinations,
            },
        )
        error = new_error()
        array = _pointers(outputs)
        pointer = lib.ss_batch_new(runtime.pointer, signal.number, config, array, len(outputs), error)
        if pointer == ffi.NULL:
            fail(error.code, "batch", error)
        super().__init__(pointer, runtime, tuple(outputs))

    def stats(self) -> Any:
        """Return an ss_batch_stats of this moment."""
        stats = ffi.new("ss_batch_stats *")
        lib.ss_batch_read_stats(self.pointer, stats)
        return stats

    def sizes(self, stats: Any) -> Iterator[tuple[float, int]]:
        """Yield bounds, ascending up to infinity, and how many batches of stats had so many items or fewer."""
        batch_count = 0
        for index, in_bucket in enumerate(stats.sent_by_size):
            batch_count += in_bucket
            yield lib.ss_batch_size_bound(index), batch_count
        yield math.inf, stats.sent_batches

    def drain(self, timeout_s: float) -> bool:
        """Pass on what is gathered and refuse from now on; False when timeout_s was not enough."""
        return bool(lib.ss_batch_drain(self.pointer, int(timeout_s * 1e9)) == lib.SS_OK)


class QueueItem(NamedTuple):
    """A request taken from a queue; its bytes are valid until Queue.done."""

    struct: Any

    @property
    def view(self) -> Any:
        """A buffer over the serialized request, without a copy."""
        return ffi.buffer(self.struct.bytes, self.struct.length)

    @property
    def encoding(self) -> Encoding:
        """What it is compressed with."""
        return encoding_of(self.struct.encoding)

    @property
    def original_length(self) -> int:
        """Its bytes before compression."""
        return int(self.struct.original_length)

    @property
    def item_count(self) -> int:
        """Spans, data points or log records in it."""
        return int(self.struct.n_items)

    @property
    def deadline_s(self) -> float:
        """When the client that waits for it goes, on the monotonic clock; infinite when none does."""
        deadline_ns = int(self.struct.deadline_ns)
        return math.inf if deadline_ns == _NEVER_NS else deadline_ns / 1e9

    @property
    def not_before_s(self) -> float:
        """When the next attempt is due, on the monotonic clock; 0 for at once."""
        return int(self.struct.not_before_ns) / 1e9

    @property
    def cancel_fd(self) -> int:
        """A file descriptor that is readable once that client has gone; -1 where none waits."""
        return int(self.struct.cancel_fd)


class Waited(Enum):
    """How a wait for the next attempt has ended."""

    TIME_IS_UP = int(lib.SS_ERR_TIMEOUT)
    CLOSED = int(lib.SS_ERR_CLOSED)  # or there is a successor
    CANCELLED = int(lib.SS_ERR_CANCELLED)


class Queue(Consumer):
    """A bounded queue that the threads of an exporter empty.

    Args:
        sizer: `requests`, `items` or `bytes`: the unit of capacity.
    """

    def __init__(
        self, runtime: Runtime, signal: Signal, *, sizer: str, capacity: int, block_on_overflow: bool = False
    ) -> None:
        sizers = {"requests": lib.SS_SIZER_REQUESTS, "items": lib.SS_SIZER_ITEMS, "bytes": lib.SS_SIZER_BYTES}
        error = new_error()
        pointer = lib.ss_queue_new(
            runtime.pointer, signal.number, sizers[sizer], capacity, block_on_overflow, error
        )
        if pointer == ffi.NULL:
            fail(error.code, "sending_queue", error)
        super().__init__(pointer, runtime)
        self.successor: Queue | None = None

    def set_compression(self, encoding: str, level: int) -> None:
        """Compress what comes from now on, in the thread that brings it; encoding and level as of Codec.compress.

        Raises:
            NativeError: no such level, or the encoding is not available.
        """
        check(lib.ss_queue_set_compression(self.pointer, encoding_number(encoding), level), encoding)

    def pop(self, timeout_s: float) -> QueueItem | None:
        """Wait for a request; None after timeout_s.

        Raises:
            StopIteration: the queue was closed and is empty.
        """
        item = ffi.new("ss_queue_item *")
        status = lib.ss_queue_pop(self.pointer, int(timeout_s * 1e9), item)
        if status == lib.SS_ERR_CLOSED:
            raise StopIteration
        return QueueItem(item) if status == lib.SS_OK else None

    def hold_answers(self, *, waiting_max: int = 0) -> None:
        """Answer clients from now on when their request has been delivered or given up, by `done`.

        A request whose client goes before it has been popped is dropped.

        Args:
            waiting_max: so many requests of clients are taken beside capacity, which is for those that nobody waits
                for, batches; 0: capacity is for all.
        """
        lib.ss_queue_hold_answers(self.pointer, waiting_max)

    def wait(self, item: QueueItem, seconds: float, *, ends_with_queue: bool = True) -> Waited:
        """Wait before another attempt to send item, unless its client goes.

        Args:
            ends_with_queue: wait no longer than until the queue is closed or has a successor.
        """
        timeout_ns = min(int(seconds * 1e9), _NEVER_NS)
        return Waited(lib.ss_queue_wait(self.pointer, item.struct, timeout_ns, ends_with_queue))

    def put_back(self, item: QueueItem, not_before_s: float = 0.0) -> None:
        """Put item at the end of the queue, for another attempt when the monotonic clock shows not_before_s."""
        lib.ss_queue_put_back(self.pointer, item.struct, int(not_before_s * 1e9))

    def hand_over(self, successor: Queue) -> None:
        """Give what waits, and what comes from now on, to successor for as long as that is open."""
        self.successor = successor  # which must not go before this one
        lib.ss_queue_hand_over(self.pointer, successor.pointer)

    def pass_on(self, item: QueueItem) -> bool:
        """Give item to the successor; False where there is none, or it is closed, or give_up has counted item."""
        return bool(lib.ss_queue_pass_on(self.pointer, item.struct))

    def done(self, item: QueueItem, verdict: Verdict | None = None, wire_bytes: int = 0) -> bool:
        """Count what became of item, give back its place and its bytes, and tell the client that waits for it.

        Args:
            verdict: what the client is told; None counts nothing and has the client come again.
            wire_bytes: that it took to send, on success.

        Returns:
            False when give_up has counted it already.
        """
        struct = ffi.NULL
        if verdict is not None:
            struct = ffi.new(
                "ss_verdict *",
                {
                    "code": verdict.code,
                    "has_retry_delay": verdict.retry_delay_ms is not None,
                    "retry_delay_ms": verdict.retry_delay_ms or 0,
                    "rejected_items": verdict.rejected_items,
                },
            )
            message = verdict.message.encode(errors="replace")[: len(struct.message) - 1]
            ffi.memmove(struct.message, message, len(message))
        return bool(lib.ss_queue_done(self.pointer, item.struct, struct, wire_bytes))

    def give_up(self) -> int:
        """Count what is still held as failed, the first time; return how many items."""
        return int(lib.ss_queue_give_up(self.pointer))

    def close(self) -> None:
        """Refuse new requests; the rest can still be popped."""
        lib.ss_queue_close(self.pointer)

    def stats(self) -> Any:
        """Return an ss_queue_stats of this moment."""
        stats = ffi.new("ss_queue_stats *")
        lib.ss_queue_read_stats(self.pointer, stats)
        return stats


class Verdict(NamedTuple):
    """What a receiver answers its client.

    Attributes:
        code: google.rpc.Code.
        message: why, empty on success.
        retry_delay_ms: the client should wait this long; None where nothing is said.
        rejected_items: of a request that was taken in part.
    """

    code: int
    message: str = ""
    retry_delay_ms: int | None = None
    rejected_items: int = 0


class Receiver:
    """Where transports hand requests over.

    Args:
        rejects_requests: an invalid item costs its request, instead of itself alone.
    """

    def __init__(self, runtime: Runtime, *, rejects_requests: bool = False) -> None:
        mode = lib.SS_INVALID_REJECT_REQUEST if rejects_requests else lib.SS_INVALID_REJECT_ITEM
        pointer = lib.ss_receiver_new(runtime.pointer, mode)
        if pointer == ffi.NULL:
            raise MemoryError
        self.pointer = ffi.gc(pointer, lib.ss_receiver_free)
        self._runtime = runtime
        self._routes: dict[Signal, Consumer] = {}

    def publish(self, signal: Signal, consumer: Consumer | None) -> None:
        """Route signal to consumer from the next request on; waits until the old route is unused."""
        lib.ss_receiver_publish(
            self.pointer, signal.number, ffi.NULL if consumer is None else consumer.pointer
        )
        self._runtime.synchronize()
        if consumer is None:
            self._routes.pop(signal, None)
        else:
            self._routes[signal] = consumer

    def has_signal(self, signal: Signal) -> bool:
        """Return whether a pipeline wants signal."""
        return bool(lib.ss_receiver_has_signal(self.pointer, signal.number))

    def accept(self, worker: Worker, signal: Signal, transport: int, payload: int, body: bytes) -> Verdict:
        """Hand over one complete, decompressed request; for transports written in Python.

        Args:
            worker: of the calling thread.
            transport: an ss_transport, how it came.
            payload: an ss_payload, what body is.
        """
        buffer = ffi.from_buffer("uint8_t[]", body)
        request = ffi.new(
            "ss_request *",
            {
                "signal": signal.number,
                "transport": transport,
                "payload": payload,
                "bytes": buffer,
                "length": len(body),
            },
        )
        verdict = ffi.new("ss_verdict *")
        lib.ss_receiver_accept(self.pointer, worker.pointer, request, verdict)
        return Verdict(
            int(verdict.code),
            ffi.string(verdict.message).decode(errors="replace"),
            int(verdict.retry_delay_ms) if verdict.has_retry_delay else None,
            int(verdict.rejected_items),
        )

    def stats(self) -> Any:
        """Return an ss_receiver_stats of this moment."""
        stats = ffi.new("ss_receiver_stats *")
        lib.ss_receiver_read_stats(self.pointer, stats)
        return stats

    @property
    def last_fault(self) -> str:
        """What was last told to a client of invalid items or texts; empty if nothing ever was."""
        text = ffi.new("char[512]")
        lib.ss_receiver_last_fault(self.pointer, text, len(text))
        return str(ffi.string(text).decode(errors="replace"))
