"""The columns of one request as numpy arrays, its values as texts and numbers, and edits of its attributes.

What is asked for is copied when it is asked for. So an array may be kept for as long as its owner likes, and what
nobody asks for costs nothing. A table itself ends with its request.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy  # 20 MB, so this module is loaded only where a processor in numpy is configured

from collector.ids import Signal
from collector.lean import TYPE_CHECKING, Any
from collector.native.attributes import native_values
from collector.native.errors import check, new_error
from collector.native.library import ffi, lib
from collector.threads import Lock

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_IDS = ("trace_id", "span_id", "parent_span_id")
# Of each column the type of its entries, and how many bytes a row has.
COLUMNS: dict[str, tuple[Any, int]] = {
    "trace_id": (numpy.dtype("uint8"), 16),
    "span_id": (numpy.dtype("uint8"), 8),
    "parent_span_id": (numpy.dtype("uint8"), 8),
    "start_time_unix_nano": (numpy.dtype("uint64"), 8),
    "end_time_unix_nano": (numpy.dtype("uint64"), 8),
    "kind": (numpy.dtype("int32"), 4),
    "status_code": (numpy.dtype("int32"), 4),
    "flags": (numpy.dtype("uint32"), 4),
    "name_offset": (numpy.dtype("uint32"), 4),
    "name_length": (numpy.dtype("uint32"), 4),
    "tracestate_offset": (numpy.dtype("uint32"), 4),
    "tracestate_length": (numpy.dtype("uint32"), 4),
    "attributes_offset": (numpy.dtype("uint32"), 4),
    "attributes_length": (numpy.dtype("uint32"), 4),
    "attribute_count": (numpy.dtype("uint32"), 4),
    "event_count": (numpy.dtype("uint32"), 4),
    "link_count": (numpy.dtype("uint32"), 4),
    "resource_index": (numpy.dtype("uint32"), 4),
    "scope_index": (numpy.dtype("uint32"), 4),
    "row_offset": (numpy.dtype("uint32"), 4),
    "row_length": (numpy.dtype("uint32"), 4),
    "body_offset": (numpy.dtype("uint32"), 4),
    "marks": (numpy.dtype("uint8"), 1),
}
_TEXTS = {
    "name": lib.SS_SOURCE_NAME,
    "scope_name": lib.SS_SOURCE_SCOPE_NAME,
    "severity_text": lib.SS_SOURCE_SEVERITY_TEXT,
    "body": lib.SS_SOURCE_BODY,
}
_NO_VALUE = (1 << 32) - 1
_PLAIN = (str, bool, int, float)


class TableEnded(RuntimeError):
    """A table was used after the request that it showed."""


class SpanTable:
    """One row a span, data point or log record of an Export*ServiceRequest.

    Columns are attributes: `trace_id` uint8[n, 16], `span_id` and `parent_span_id` uint8[n, 8], times uint64[n]
    in nanoseconds, and the others of `ss_table` in spansieve.h, each [n]. Offsets are into `data`. Columns of text are
    arrays of `str`: `name`, `scope_name`, and of log records `severity_text` and `body`. All show the request, edits
    included, are copies, and are read-only.

    `verdict`, uint8[n], is there to be written: 0 keeps a row, 1 drops it. A mask may be assigned to it.

    Args:
        data: bytes-like, the serialized request; kept until the table ends.

    Raises:
        MalformedInput: with the byte offset.
    """

    # Attributes of its own lie in __dict__ alone, since assignments are refused; columns that were read stay there.
    _lock: Any
    _worker: Any  # ss_table_worker; None once the table has ended
    _data: Any
    _n_rows: int
    _verdict: bytearray | None
    signal: Signal

    def __init__(self, signal: Signal, data: Any) -> None:
        worker = new_worker()
        buffer = ffi.from_buffer(data)
        error = new_error()
        status = lib.ss_scan(signal.number, buffer, len(buffer), worker.table, error)
        check(status, f"otlp {signal.value}", error)
        self._show(signal, worker)
        self.__dict__["_data"] = buffer

    @classmethod
    def of(cls, signal: Signal, worker: Any) -> SpanTable:
        """Return a table of the request that an ss_table_worker has at hand, to be ended before it has another."""
        table = cls.__new__(cls)
        table._show(signal, worker)  # noqa: SLF001 of this class
        return table

    def _show(self, signal: Signal, worker: Any) -> None:
        own = self.__dict__
        own["signal"] = signal
        own["_worker"] = worker
        own["_n_rows"] = worker.table.n_rows
        own["_verdict"] = None
        own["_lock"] = Lock()

    def __len__(self) -> int:
        return self._n_rows

    def __getattr__(self, column: str) -> NDArray[Any]:
        # Called for what is not in __dict__ yet.
        if column in COLUMNS:
            array = self._copy(column)
        elif column in _TEXTS:
            array = self._texts(_TEXTS[column], "")
            array.setflags(write=False)
        else:
            raise AttributeError(f"a table has no column {column!r}")
        self.__dict__[column] = array
        return array

    def __setattr__(self, name: str, value: object) -> None:
        if name != "verdict":
            raise AttributeError(
                f"table.{name} cannot be assigned: columns show the request. "
                "Rows are dropped by table.verdict, attributes are changed by table.set_attribute"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"table.{name} cannot be deleted")

    @property
    def data(self) -> bytes:
        """A copy of the serialized request as it is now, edits of attributes included."""
        with self._lock:
            native = self._open().table
            return bytes(ffi.buffer(native.bytes, native.bytes_length))

    @property
    def verdict(self) -> NDArray[numpy.uint8]:
        """For each row 0 to keep it or 1 to drop it."""
        array = self.__dict__.get("_verdict_array")
        if array is None:
            # Whatever becomes of the array, its shape for example, the bytes behind it stay.
            held = bytearray(self._n_rows)
            array = numpy.frombuffer(held, "uint8")
            self.__dict__.update(_verdict=held, _verdict_array=array)
        return array

    @verdict.setter
    def verdict(self, value: ArrayLike) -> None:
        given = numpy.asarray(value)
        self._check_shape("table.verdict", given)
        if given.dtype.kind not in "bui":
            raise TypeError(f"table.verdict takes booleans, or 0 and 1; got {given.dtype}")
        if given.dtype.kind != "b" and not numpy.isin(given, (0, 1)).all():
            raise ValueError(
                "table.verdict takes booleans, or 0 to keep a row and 1 to drop it; got other numbers"
            )
        self.verdict[:] = given

    def attribute(self, key: str) -> NDArray[numpy.object_]:
        """Return the values of an attribute, one a row, as texts; None where a row has no such attribute.

        Numbers and booleans are written as in JSON, arrays and maps are JSON.
        """
        return self._texts(lib.SS_SOURCE_ATTRIBUTE, key)

    def resource_attribute(self, key: str) -> NDArray[numpy.object_]:
        """Return the values that the resource of each row has for key, as `attribute` does."""
        return self._texts(lib.SS_SOURCE_RESOURCE_ATTRIBUTE, key)

    def number(self, key: str) -> NDArray[numpy.float64]:
        """Return the values of an attribute, one a row; NaN where a row has none, or one that is no number."""
        numbers = numpy.empty(self._n_rows, "float64")
        text, _keep = _text(key)
        with self._lock:
            native = self._open().table
            pointer = ffi.from_buffer("double[]", numbers, require_writable=True)
            check(lib.ss_table_numbers(native, lib.SS_SOURCE_ATTRIBUTE, text, pointer), "table.number")
        return numbers

    def set_attribute(self, key: str, values: Any, where: ArrayLike | None = None) -> None:
        """Give rows an attribute, in place of the value that they may have.

        Args:
            values: one `str`, `bool`, `int` or `float` for all rows, or one for each; None leaves its row as it is.
            where: a boolean for each row, False leaves it as it is; None for all rows.

        Raises:
            TypeError: a value of another type, or where has no booleans.
            ValueError: there is not one for each row.
        """
        mask = self._mask(where)
        distinct, indexes = self._distinct(values)
        chosen = numpy.array(indexes, "uint32")
        chosen[~mask] = _NO_VALUE
        array, _keep_values = native_values(distinct)
        text, _keep = _text(key)
        pointer = ffi.from_buffer("uint32_t[]", chosen)
        self._edit(lib.ss_table_set_attribute, text, array, len(distinct), pointer)

    def delete_attribute(self, key: str, where: ArrayLike | None = None) -> None:
        """Take an attribute from the rows for which where is True, all of that key; None: from all rows."""
        text, _keep = _text(key)
        self._edit(lib.ss_table_delete_attribute, text, ffi.from_buffer("uint8_t[]", self._mask(where)))

    def emit(self) -> bytes:
        """Return the request with the rows whose verdict is 0; empty when none is left.

        Raises:
            ValueError: verdict holds something else than 0 and 1.
        """
        with self._lock:
            worker = self._open()
            self._put_verdicts(worker.table)
            request, length = ffi.new("uint8_t **"), ffi.new("size_t *")
            check(lib.ss_table_worker_emit(worker, request, length), "emit")
            return bytes(ffi.buffer(request[0], length[0])) if length[0] else b""

    def finish(self) -> None:
        """Put the verdicts where the data plane reads them, and end the table.

        Raises:
            ValueError: as `emit`.
        """
        with self._lock:
            self._put_verdicts(self._open().table)
            self._close()

    def end(self) -> None:
        """Let nothing be read from now on but arrays that are there; safe twice and from any thread."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        self.__dict__["_worker"] = self.__dict__["_data"] = None

    def _open(self) -> Any:
        worker = self._worker
        if worker is None:
            raise TableEnded("this table has ended with its request: keep arrays of it, not the table")
        return worker

    def _put_verdicts(self, native: Any) -> None:
        if self._verdict is None:
            return
        verdicts = bytes(self._verdict)
        if verdicts.count(0) + verdicts.count(1) != self._n_rows:
            row, value = next((row, value) for row, value in enumerate(verdicts) if value > 1)
            raise ValueError(f"table.verdict[{row}] is {value}; 0 keeps a row, 1 drops it")
        ffi.memmove(native.verdict, verdicts, self._n_rows)
        lib.ss_table_recount(native)

    def _copy(self, column: str) -> NDArray[Any]:
        dtype, size = COLUMNS[column]
        n_rows = self._n_rows
        with self._lock:
            native = self._open().table
            copied = ffi.buffer(getattr(native, column), n_rows * size)[:] if n_rows else b""
        array: NDArray[Any] = numpy.frombuffer(copied, dtype)
        return array.reshape(n_rows, size) if column in _IDS else array

    def _texts(self, source: int, key: str) -> NDArray[numpy.object_]:
        ends = numpy.empty(self._n_rows, "uint32")
        index = numpy.empty(self._n_rows, "int32")
        text, _keep = _text(key)
        column = ffi.new("ss_text_column *")
        column.ends = ffi.from_buffer("uint32_t[]", ends)
        column.index = ffi.from_buffer("int32_t[]", index)
        try:
            with self._lock:
                check(lib.ss_table_texts(self._open().table, source, text, column), "table.attribute")
            joined = bytes(ffi.buffer(column.bytes.data, column.bytes.length)) if column.bytes.length else b""
            n_texts = int(column.n_texts)
        finally:
            lib.ss_buffer_free(ffi.addressof(column, "bytes"))
        found = numpy.empty(n_texts + 1, "object")  # None at the end, where -1 leads
        found[:n_texts] = _cut(joined, ends[:n_texts].tolist())
        return found[index]

    def _mask(self, where: ArrayLike | None) -> NDArray[numpy.bool_]:
        if where is None:
            return numpy.ones(self._n_rows, "bool")
        mask = numpy.asarray(where, order="C")
        self._check_shape("where", mask)
        if mask.dtype.kind != "b":
            raise TypeError(f"where takes booleans; got {mask.dtype}")
        return mask

    def _check_shape(self, what: str, given: NDArray[Any]) -> None:
        if given.shape != (self._n_rows,):
            raise ValueError(
                f"{what} takes one value a row, shape ({self._n_rows},); got shape {given.shape}"
            )

    def _distinct(self, values: Any) -> tuple[list[Any], list[int]]:
        """Return the values that differ, and for each row which of them it is given."""
        values = values.tolist() if hasattr(values, "tolist") else values
        if values is None or isinstance(values, _PLAIN):
            values = [values] * self._n_rows
        if not isinstance(values, Iterable):
            raise TypeError(f"an attribute is a str, bool, int or float; got {type(values).__name__}")
        values = list(values)
        if len(values) != self._n_rows:
            raise ValueError(f"values must be one, or one for each of {self._n_rows} rows; got {len(values)}")
        known: dict[tuple[type, Any], int] = {}
        indexes = []
        for value in values:
            if value is None:
                indexes.append(_NO_VALUE)
                continue
            plain = value.item() if hasattr(value, "item") else value
            if not isinstance(plain, _PLAIN):
                raise TypeError(f"an attribute is a str, bool, int or float; got {type(value).__name__}")
            indexes.append(known.setdefault((type(plain), plain), len(known)))
        return [value for _type, value in known], indexes

    def _edit(self, edit: Any, *arguments: Any) -> None:
        error = new_error()
        with self._lock:
            worker = self._open()
            status = edit(worker.table, *arguments)
            if status == lib.SS_OK:
                status = lib.ss_table_settle(worker.table, ffi.addressof(worker, "edited"), error)
            if status != lib.SS_OK:
                self._close()  # it shows half an edit, or nothing
            check(status, "edit of an attribute", error)
            for column in (*COLUMNS, *_TEXTS):
                self.__dict__.pop(column, None)


def new_worker() -> Any:
    """Return an ss_table_worker, which is freed with its last reference."""
    worker = ffi.gc(lib.ss_table_worker_new(), lib.ss_table_worker_free)
    if worker == ffi.NULL:
        raise MemoryError
    return worker


def _text(text: str) -> tuple[dict[str, Any], Any]:
    """Return an ss_text, and what must be kept as long as it."""
    encoded = text.encode()
    memory = ffi.new("char[]", encoded)
    return {"data": memory, "length": len(encoded)}, memory


def _cut(joined: bytes, ends: list[int]) -> list[str]:
    """Return the texts that end at ends."""
    starts = [0, *ends]
    if joined.isascii():
        text = joined.decode("ascii")
        return [text[start:end] for start, end in zip(starts, ends, strict=False)]
    return [joined[start:end].decode(errors="replace") for start, end in zip(starts, ends, strict=False)]
