"""Logs of the collector itself: a constant lower-case event and fields, one line each."""

from __future__ import annotations

import logging
from typing import Any


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
