"""The columns of one request as numpy arrays over the data plane's own memory: nothing is copied."""

from __future__ import annotations

from collector.ids import Signal
from collector.lean import TYPE_CHECKING, Any
from collector.native.errors import check, new_error
from collector.native.library import ffi, lib

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_COLUMNS = {
    "start_time_unix_nano": "uint64",
    "end_time_unix_nano": "uint64",
    "kind": "int32",
    "status_code": "int32",
    "flags": "uint32",
    "name_offset": "uint32",
    "name_length": "uint32",
    "tracestate_offset": "uint32",
    "tracestate_length": "uint32",
    "attributes_offset": "uint32",
    "attributes_length": "uint32",
    "attribute_count": "uint32",
    "event_count": "uint32",
    "link_count": "uint32",
    "resource_index": "uint32",
    "scope_index": "uint32",
    "row_offset": "uint32",
    "row_length": "uint32",
    "body_offset": "uint32",
    "marks": "uint8",
    "verdict": "uint8",
}


class SpanTable:
    """One row a span, data point or log record of a scanned Export*ServiceRequest.

    Columns are attributes: `trace_id` uint8[n, 16], `span_id` and `parent_span_id` uint8[n, 8], times uint64[n]
    in nanoseconds, and the others of `ss_table` in spansieve.h, each [n]. Offsets are into `data`. `verdict` may
    be written: 0 keeps the row, 1 drops it. All arrays are views that the next `scan` into this table ends.
    """

    def __init__(self) -> None:
        self.pointer = ffi.gc(lib.ss_table_new(), lib.ss_table_free)
        if self.pointer == ffi.NULL:
            raise MemoryError
        self._data: Any = None
        self.signal = Signal.TRACES

    @classmethod
    def scan(cls, signal: Signal, data: Any) -> SpanTable:
        """Return a table of data.

        Args:
            data: bytes-like, the serialized request; kept alive by the table.

        Raises:
            MalformedInput: with the byte offset.
        """
        table = cls()
        table.rescan(signal, data)
        return table

    def rescan(self, signal: Signal, data: Any) -> None:
        """Read another request into this table; its old arrays must no longer be used."""
        buffer = ffi.from_buffer(data)
        error = new_error()
        status = lib.ss_scan(signal.number, buffer, len(buffer), self.pointer, error)
        check(status, f"otlp {signal.value}", error)
        self._data = buffer
        self.signal = signal

    def __len__(self) -> int:
        return int(self.pointer.n_rows)

    def __getattr__(self, column: str) -> NDArray[numpy.generic]:
        import numpy  # 20 MB that only numpy processors pay

        rows = len(self)
        width = _IDS.get(column)
        dtype = "uint8" if width else _COLUMNS.get(column)
        if dtype is None:
            raise AttributeError(column)
        size = rows * (width or numpy.dtype(dtype).itemsize)
        if not rows:
            array = numpy.empty(0, dtype)
        else:
            array = numpy.frombuffer(ffi.buffer(getattr(self.pointer, column), size), dtype)
        return array.reshape(rows, width) if width else array

    @property
    def data(self) -> Any:
        """The scanned bytes, as a buffer."""
        return ffi.buffer(self._data)

    def name(self, row: int) -> str:
        """Return the name of a row's span or metric; for reports, not for every row."""
        offset = self.pointer.name_offset[row]
        return bytes(self.data[offset : offset + self.pointer.name_length[row]]).decode(errors="replace")

    def emit(self) -> bytes:
        """Return the request with the rows whose verdict is 0; empty when none is left."""
        lib.ss_table_recount(self.pointer)
        out = ffi.new("ss_buffer *")
        try:
            check(lib.ss_emit(self.pointer, 0, self.pointer.n_rows, out), "emit")
            return bytes(ffi.buffer(out.data, out.length)) if out.length else b""
        finally:
            lib.ss_buffer_free(out)
