"""What takes requests one after another out of a queue, shows each as a table, and passes it on."""

from __future__ import annotations

from collector.ids import Signal
from collector.native.errors import raise_verdict
from collector.native.library import ffi, lib
from collector.native.pipeline import Consumer, Queue, QueueItem, Verdict
from collector.native.runtime import Runtime, Worker
from collector.native.table import SpanTable, new_worker


class TableWorker:
    """Between a queue and what is behind it; for one thread. Few calls a request, each of which has its price."""

    def __init__(self, runtime: Runtime, signal: Signal, queue: Queue, output: Consumer) -> None:
        self._signal = signal
        self._queue = queue
        self._output = output
        self._worker = Worker(runtime)
        self._struct = new_worker()
        self._verdict = ffi.addressof(self._struct, "verdict")

    def next(self, timeout_s: float) -> bool:
        """Wait for a request; False after timeout_s, else it is at hand until `passed` or `done`.

        Raises:
            StopIteration: the queue was closed and is empty.
        """
        status = lib.ss_table_worker_next(self._struct, self._queue.pointer, int(timeout_s * 1e9))
        if status == lib.SS_ERR_CLOSED:
            raise StopIteration
        return bool(status != lib.SS_ERR_TIMEOUT)

    def has_item(self) -> bool:
        """Return whether a request is at hand."""
        return bool(self._struct.item.handle != ffi.NULL)

    def table(self) -> SpanTable:
        """Return a table of the request at hand, to be ended before the request is passed on.

        Raises:
            Refused: there is no memory for it.
            PermanentError: it cannot be read.
        """
        raise_verdict(self._verdict)
        return SpanTable.of(self._signal, self._struct)

    def pass_on(self) -> None:
        """Pass on the rows that are kept, if any are; then the request is done, and its client is told so.

        Raises:
            Refused: retryable; the request is still at hand.
            PermanentError: trying again cannot help; the request is still at hand.
        """
        status = lib.ss_table_worker_pass(
            self._struct, self._queue.pointer, self._worker.pointer, self._output.pointer
        )
        if status != lib.SS_OK:
            raise_verdict(self._verdict)

    def done(self, verdict: Verdict | None) -> None:
        """Tell the client of the request at hand what became of it; None: to come again."""
        self._queue.done(QueueItem(ffi.addressof(self._struct, "item")), verdict)

    @property
    def item_count(self) -> int:
        """Spans, data points or log records of the request at hand."""
        return int(self._struct.item.n_items)

    @property
    def kept_count(self) -> int:
        """How many of them are kept."""
        return int(self._struct.table.n_kept)

    @property
    def is_awaited(self) -> bool:
        """Whether a client waits for what becomes of the request at hand."""
        return bool(self._struct.item.cancel_fd >= 0)
