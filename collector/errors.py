"""Exceptions, grouped by what the caller can do about them."""

from __future__ import annotations

from collections.abc import Sequence

from collector.lean import NamedTuple


class CollectorError(Exception):
    """Root of everything that spansieve raises on purpose."""


class Problem(NamedTuple):
    """One fault of a configuration: where it stands and what is wrong there.

    Attributes:
        in_use: of a component: it is a fault only where something uses the component.
    """

    path: str
    message: str
    in_use: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(CollectorError):
    """The configuration cannot be used; carries every problem found, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InvalidYAML(CollectorError):
    """Text that is no YAML, or YAML that says nothing; line counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        self.message = message
        self.line = line
        super().__init__(f"line {line}: {message}")


class StartError(CollectorError):
    """A component could not start, although its configuration is valid."""

    def __init__(self, component: object, message: str) -> None:
        self.component = component
        self.message = message
        super().__init__(f"{component}: {message}")


class TLSFailure(CollectorError):
    """Certificates, keys or limits of TLS cannot be used; the text says which, and why."""


class ConsumeError(CollectorError):
    """A request could not be taken or delivered; code is the peer's google.rpc.Code, None when there is none."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        self.code = code
        super().__init__(message)


class PermanentError(ConsumeError):
    """Trying again cannot help."""


class RetryableError(ConsumeError):
    """Trying again may help; retry_after_s is the peer's wish in seconds, None when it has none."""

    def __init__(self, message: str, retry_after_s: float | None = None, *, code: int | None = None) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message, code=code)


class Refused(RetryableError):
    """Refused early, before anything was done: memory or a queue is full."""


class NativeError(CollectorError):
    """The data plane returned a status other than OK."""

    def __init__(self, message: str, code: int, offset: int = 0) -> None:
        self.code = code
        self.offset = offset
        super().__init__(message)


class MalformedInput(NativeError):
    """Bytes that break their format; offset says where."""


class LimitExceeded(NativeError):
    """A stated limit of size, depth or count would be passed."""


def reason_of(error: Exception) -> str:
    """Return why a request had no answer, without the names of Python's types that error has in its text."""
    cause = error.__cause__
    return (cause.strerror or str(cause)) if isinstance(cause, OSError) else str(error)


_TRACEBACK_MAX = 16_384


def explain(error: BaseException) -> str:
    """Return the kind of an error and its text, also of one that fails to say it."""
    try:
        text = str(error)
    except BaseException as failure:  # noqa: BLE001 of somebody else's class
        text = f"its text cannot be had: {type(failure).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an error as Python prints it, its end where it is very long."""
    import traceback  # brings `re`, and is needed only where something breaks

    try:
        text = "".join(traceback.format_exception(error)).rstrip()
    except BaseException as failure:  # noqa: BLE001 of somebody else's class
        text = f"the traceback cannot be had: {type(failure).__name__}"
    return text[-_TRACEBACK_MAX:]


def place_of(error: BaseException) -> str:
    """Return where an error was raised, such as ` (plugin.py:3, in process)`; empty where that is not known."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}:{error.lineno})"
    place = ""
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        if not code.co_filename.startswith("<frozen importlib"):
            place = f" ({code.co_filename}:{step.tb_lineno}, in {code.co_name})"
        step = step.tb_next
    return place
