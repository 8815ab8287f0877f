"""Logs of the collector itself: a constant lower-case event and fields, one line each."""

from __future__ import annotations

import enum
import json
import logging
import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from collector.lean import Any

_LEVELS = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warn",
    logging.ERROR: "error",
    logging.CRITICAL: "fatal",
}

# Events are constant texts, so few; the bound holds whatever a third-party component does.
_EVENTS_MAX = 1024


class Log:
    """A logger whose records are an event and fields: `log.warning("export failed", items=3, error=error)`."""

    __slots__ = ("_fields", "_logger")

    def __init__(self, logger: logging.Logger, **fields: Any) -> None:
        self._logger = logger
        self._fields = fields

    def bind(self, **fields: Any) -> Log:
        """Return a logger that adds fields to each record."""
        return Log(self._logger, **{**self._fields, **fields})

    def debug(self, event: str, **fields: Any) -> None:
        """Say what only a developer wants to know."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Say what an operator may want to know."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Say what an operator should look at."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Say what lost data or stopped something."""
        self._write(logging.ERROR, event, fields)

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": {**self._fields, **fields}})


class Encoding(enum.StrEnum):
    """How a log line is written: as the Collector's two encodings, without the caller."""

    CONSOLE = "console"
    JSON = "json"


class _Formatter(logging.Formatter):
    def __init__(self, encoding: Encoding, initial_fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._encoding = encoding
        self._initial_fields = initial_fields

    def format(self, record: logging.LogRecord) -> str:
        """Return one line: time, level, event and fields."""
        fields = {**self._initial_fields, **getattr(record, "fields", {})}
        level = _LEVELS.get(record.levelno, record.levelname.lower())
        event = record.getMessage()
        stamp = _format_time(record.created)
        if self._encoding is Encoding.JSON:
            return _to_json({"level": level, "ts": stamp, "msg": event, **fields})
        # A line stays a line whatever a peer or a path puts into it.
        parts = [stamp, level, _to_json(event)[1:-1] if _has_control(event) else event]
        return "\t".join([*parts, _to_json(fields)] if fields else parts)


class RepeatFilter(logging.Filter):
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
        super().__init__()
        self._tick_s = tick_s
        self._initial = initial
        self._thereafter = thereafter
        self._clock = clock
        self._lock = threading.Lock()
        self._events: dict[tuple[int, object], _Repeats] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether record is written."""
        with self._lock:
            return self._count(record)

    def _count(self, record: logging.LogRecord) -> bool:
        key = record.levelno, record.msg
        now_s = self._clock()
        repeats = self._events.get(key)
        if repeats is None:
            if len(self._events) >= _EVENTS_MAX:
                self._events.clear()
            repeats = self._events[key] = _Repeats(now_s)
        if now_s - repeats.start_s >= self._tick_s:
            repeats.start_s = now_s
            repeats.count = 0
        repeats.count += 1
        beyond = repeats.count - self._initial
        if beyond > 0 and (self._thereafter == 0 or beyond % self._thereafter):
            repeats.suppressed += 1
            return False
        if repeats.suppressed:
            record.fields = {**getattr(record, "fields", {}), "suppressed": repeats.suppressed}
            repeats.suppressed = 0
        return True


class _Repeats:
    __slots__ = ("count", "start_s", "suppressed")

    def __init__(self, start_s: float) -> None:
        self.start_s = start_s
        self.count = 0
        self.suppressed = 0


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
    handlers: list[logging.Handler] = []
    for path in paths:
        try:
            handlers.append(_open(path))
        except OSError:
            _close(handlers)
            raise
    for handler in handlers:
        handler.setFormatter(_Formatter(Encoding(encoding), initial_fields or {}))
    logger = logging.getLogger("spansieve")
    logger.propagate = False
    logger.setLevel(_level_number(level))
    logger.filters[:] = [] if repeats is None else [repeats]
    former, logger.handlers[:] = logger.handlers[:], handlers
    _close(former)
    return Log(logger)


def _close(handlers: Iterable[logging.Handler]) -> None:
    for handler in handlers:
        handler.close()


def _open(path: str) -> logging.Handler:
    if path in ("stderr", "stdout"):
        return logging.StreamHandler(sys.stderr if path == "stderr" else sys.stdout)
    return logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")


def _level_number(level: str) -> int:
    for number, name in _LEVELS.items():
        if name == level.lower():
            return number
    return logging.CRITICAL


def _format_time(time_s: float) -> str:
    whole_s = int(time_s)
    date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole_s))
    return f"{date}.{int((time_s - whole_s) * 1000):03d}Z"


def _has_control(text: str) -> bool:
    return any(ord(character) < 32 for character in text)


def _to_json(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> object:
    # Exact types: a component id, say, is a tuple that must show as its text.
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]  # type: ignore[attr-defined]
    return str(value)
