"""Logs of the collector itself: a constant lower-case event and fields, one line each.

The standard library's `logging` would do, and be a tenth of the start and of what is imported. What is used of it is
little, so that a logger of the standard library can stand behind `Log` too, as in tests. `json` would bring `re` along.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from collector.lean import Any, Protocol, StrEnum, TextIO, suppress
from collector.threads import Lock

_DEBUG, _INFO, _WARNING, _ERROR, _FATAL = 10, 20, 30, 40, 50  # as in logging
_LEVELS = {_DEBUG: "debug", _INFO: "info", _WARNING: "warn", _ERROR: "error", _FATAL: "fatal"}

# Events are constant texts, so few; the bound holds whatever a third-party component does.
_EVENTS_MAX = 1024


class LoggerLike(Protocol):
    """What writes the lines: `Logger`, or a `logging.Logger`."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 logging's name
        """Tell whether lines of level are written."""

    def log(self, level: int, msg: str, *, extra: Mapping[str, Any]) -> None:
        """Write a line; extra has the key `fields`."""


class Log:
    """A logger whose records are an event and fields: `log.warning("export failed", items=3, error=error)`."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: LoggerLike, **fields: Any) -> None:
        self._logger = logger
        self._fields = fields

    def bind(self, **fields: Any) -> Log:
        """Return a logger that adds fields to each record."""
        return Log(self._logger, **{**self._fields, **fields})

    def unbind(self, *names: str) -> Log:
        """Return a logger that adds the same fields but for these."""
        return Log(self._logger, **{name: value for name, value in self._fields.items() if name not in names})

    def debug(self, event: str, **fields: Any) -> None:
        """Say what only a developer wants to know."""
        self._write(_DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Say what an operator may want to know."""
        self._write(_INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Say what an operator should look at."""
        self._write(_WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Say what lost data or stopped something."""
        self._write(_ERROR, event, fields)

    def fatal(self, event: str, **fields: Any) -> None:
        """Say what ends the process; ending it is for the caller."""
        self._write(_FATAL, event, fields)

    def shows_info(self) -> bool:
        """Tell whether what `info` says is written."""
        return self._logger.isEnabledFor(_INFO)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": {**self._fields, **fields}})


class Encoding(StrEnum):
    """How a log line is written: as the Collector's two encodings, without the caller."""

    CONSOLE = "console"
    JSON = "json"


class RepeatFilter:
    """Thins out an event that repeats, as the Collector does: in each tick the first few, then one in many.

    The next record of the event that passes says how many did not, as field `suppressed`.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        *,
        tick_s: float = 10.0,
        initial: int = 10,
        thereafter: int = 100,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tick_s = tick_s
        self._initial = initial
        self._thereafter = thereafter
        self._clock = clock
        self._lock = Lock()
        self._events: dict[tuple[int, str], _Repeats] = {}

    def passes(self, level: int, event: str) -> tuple[bool, int]:
        """Return whether the line is written, and how many of its kind were not since the last that was."""
        with self._lock:
            return self._count(level, event)

    def _count(self, level: int, event: str) -> tuple[bool, int]:
        now_s = self._clock()
        repeats = self._events.get((level, event))
        if repeats is None:
            if len(self._events) >= _EVENTS_MAX:
                self._events.clear()
            repeats = self._events[level, event] = _Repeats(now_s)
        if now_s - repeats.start_s >= self._tick_s:
            repeats.start_s = now_s
            repeats.count = 0
        repeats.count += 1
        beyond = repeats.count - self._initial
        if beyond > 0 and (self._thereafter == 0 or beyond % self._thereafter):
            repeats.suppressed += 1
            return False, 0
        suppressed, repeats.suppressed = repeats.suppressed, 0
        return True, suppressed


class _Repeats:
    __slots__ = ("count", "start_s", "suppressed")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.count = 0
        self.suppressed = 0


class Logger:
    """Writes lines as it was last told to; any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        # guarded by _lock
        self._outputs: list[TextIO | str] = ["stderr"]
        self._level = _INFO
        self._encoding = Encoding.CONSOLE
        self._initial_fields: Mapping[str, Any] = {}
        self._repeats: RepeatFilter | None = None

    def configure(
        self,
        level: int,
        encoding: Encoding,
        outputs: list[TextIO | str],
        initial_fields: Mapping[str, Any],
        repeats: RepeatFilter | None,
    ) -> None:
        """Write otherwise from now on: to files, or to `stderr` or `stdout` by name; former files are closed."""
        with self._lock:
            former, self._outputs = self._outputs, outputs
            self._level = level
            self._encoding = encoding
            self._initial_fields = initial_fields
            self._repeats = repeats
        _close(former)

    def reopen(self) -> None:
        """Open the files again, which may have been renamed; one that cannot be is written on."""
        with self._lock:
            for index, former in enumerate(self._outputs):
                if not isinstance(former, str):
                    with suppress(OSError):
                        self._outputs[index] = _open(former.name)
                        _close([former])

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 logging's name
        """Tell whether lines of level are written."""
        return level >= self._level

    def log(self, level: int, msg: str, *, extra: Mapping[str, Any]) -> None:
        """Write a line, unless it repeats; extra has the key `fields`."""
        fields: dict[str, Any] = {**self._initial_fields, **extra["fields"]}
        if self._repeats is not None:
            passes, suppressed = self._repeats.passes(level, msg)
            if not passes:
                return
            if suppressed:
                fields["suppressed"] = suppressed
        line = _format(self._encoding, _LEVELS[level], msg, fields)
        with self._lock:
            for output in self._outputs:
                # A log that cannot be written to must stop nothing; there is nowhere left to say so.
                with suppress(OSError, ValueError):
                    stream: TextIO = getattr(sys, output) if isinstance(output, str) else output
                    stream.write(line)
                    stream.flush()


_logger = Logger()


def configure(
    level: str = "info",
    encoding: str = "console",
    *,
    paths: Sequence[str] = ("stderr",),
    initial_fields: Mapping[str, Any] | None = None,
    repeats: RepeatFilter | None = None,
) -> Log:
    """Write the collector's logs from now on as told, and return the logger.

    Args:
        level: debug, info, warn, error, dpanic, panic or fatal, as in the Collector.
        encoding: console or json.
        paths: files to append to, `stderr` or `stdout`.
        initial_fields: added to each line.
        repeats: thins out repeated events; None writes all.

    Raises:
        OSError: a file cannot be opened; logs are written as before.
    """
    outputs: list[TextIO | str] = []
    for path in paths:
        try:
            outputs.append(_open(path))
        except OSError:
            _close(outputs)
            raise
    _logger.configure(_level_number(level), Encoding(encoding), outputs, initial_fields or {}, repeats)
    return Log(_logger)


def reopen() -> None:
    """Write to what is now at the paths of the collector's logs."""
    _logger.reopen()


def _open(path: str) -> TextIO | str:
    if path in ("stderr", "stdout"):
        return path
    return open(os.path.abspath(path), "a", encoding="utf-8", errors="backslashreplace")


def _close(outputs: Iterable[TextIO | str]) -> None:
    for output in outputs:
        if not isinstance(output, str):
            with suppress(OSError):  # what could not be written is written, or not, for the last time
                output.close()


def _level_number(level: str) -> int:
    for number, name in _LEVELS.items():
        if name == level:
            return number
    return _FATAL


def _format(encoding: Encoding, level: str, event: str, fields: Mapping[str, Any]) -> str:
    """Return one line: time, level, event and fields."""
    stamp = _format_time(time.time())
    if encoding is Encoding.JSON:
        return _to_json({"level": level, "ts": stamp, "msg": event, **fields}) + "\n"
    # A line stays a line whatever a peer or a path puts into it.
    parts = [stamp, level, event if _UNSHOWN.isdisjoint(map(ord, event)) else _to_json(event)[1:-1]]
    return "\t".join([*parts, _to_json(fields)] if fields else parts) + "\n"


def _format_time(time_s: float) -> str:
    whole_s = int(time_s)
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole_s))
    return f"{date}.{int((time_s - whole_s) * 1000):03d}Z"


_JSON_WORDS = {None: "null", True: "true", False: "false"}
# What a terminal or a reader of lines obeys instead of showing: all of Unicode's Cc, the Cf that turn the direction of
# text, Zl and Zp. A client's text must neither end a line nor make one look like another.
_UNSHOWN = frozenset(
    (*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
)
_JSON_ESCAPES = {
    **{code: f"\\u{code:04x}" for code in _UNSHOWN},
    **str.maketrans(
        {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    ),
}


def _to_json(value: object) -> str:
    # Exact types: a component id, say, is a tuple that must show as its text.
    if value is None or type(value) is bool:
        return _JSON_WORDS[value]
    if type(value) in (int, float):
        text = repr(value)
        return text if text[-1].isdigit() else f'"{text}"'  # nan and inf are no JSON
    if isinstance(value, Mapping):
        items = (f"{_to_json(str(key))}: {_to_json(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    if type(value) in (list, tuple):
        return f"[{', '.join(map(_to_json, value))}]"  # type: ignore[call-overload]
    return f'"{str(value).translate(_JSON_ESCAPES)}"'
