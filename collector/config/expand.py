"""Replace `${...}` in the values of a configuration.

A value that is exactly one reference takes the type that its text has as YAML, but keeps the text for those who want
text: `${env:ID}` with 0123 is the number 83 or the text `0123`, as the field asks. References nest, innermost first,
and what they give is expanded again. `$$` is a dollar sign. Source: OpenTelemetry Collector, confmap expansion and
RFC "env-vars"; unlike there, references after an escaped one are expanded too, and all is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from collector.config import syntax
from collector.config.sources import SourceError, Text
from collector.config.values import hide_credentials
from collector.errors import InvalidYAML, Problem
from collector.lean import Any, NamedTuple

MAX_DEPTH = 150
MAX_REFERENCES = 10_000
MAX_LENGTH = 16 * 1024 * 1024


class Expanded(NamedTuple):
    """The value of a reference, and the text from which it was read."""

    value: Any
    text: str


class Unknown:
    """Stands where a reference could not be read, so that nobody complains a second time."""


UNKNOWN = Unknown()


def plain(value: Any) -> Any:
    """Return value without the texts that its references keep."""
    if isinstance(value, Expanded):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if value is UNKNOWN else value


def escape(value: Any) -> Any:
    """Return plain values with dollar signs doubled in each text that would else not come back from its expansion."""
    if isinstance(value, dict):
        return {key: escape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [escape(item) for item in value]
    if isinstance(value, str) and ("${" in value or "$$" in value):
        return value.replace("$", "$$")
    return value


def _find_tokens(text: str) -> Iterator[tuple[int, int]]:
    """Yield from where to where a `}` stands, or dollar signs with the `{` that may follow them."""
    end = 0
    for start, character in enumerate(text):
        if start < end or character not in "$}":
            continue
        end = start + 1
        if character == "$":
            while text.startswith("$", end):
                end += 1
            end += text.startswith("{", end)
        yield start, end


class _Frame:
    __slots__ = ("is_reference", "parts")

    def __init__(self, *, is_reference: bool) -> None:
        self.is_reference = is_reference
        self.parts: list[Any] = []

    def text(self) -> str:
        return "".join(part.text if isinstance(part, Expanded) else part for part in self.parts)


class Expander:
    """Expands values and gathers what it found.

    Attributes:
        problems: with the path of the value.
        warnings: with the path of the value, each once.
        references: by the path of the value, the references in it, such as `${env:PORT}`, without literal values.
    """

    def __init__(self, read: Callable[[str], Text]) -> None:
        self.problems: list[Problem] = []
        self.warnings: dict[Problem, None] = {}
        self.references: dict[str, list[str]] = {}
        self._read = read
        self._path = ""
        self._n_references = 0
        self._length = 0

    def expand(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return values with every reference replaced; UNKNOWN where that was not possible."""
        return {key: self._top(value, key) for key, value in values.items()}

    def _top(self, value: Any, path: str) -> Any:
        if isinstance(value, dict):
            return {key: self._top(item, syntax.join(path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self._top(item, syntax.join(path, index)) for index, item in enumerate(value)]
        if not isinstance(value, str) or "$" not in value:
            return value
        self._path = path
        try:
            return self._text(value, self.references.setdefault(path, []), 0)
        except SourceError as error:
            self.problems.append(Problem(path, str(error)))
            return UNKNOWN

    def _value(self, value: Any, found: list[str], depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise SourceError("too many recursive expansions")
        if isinstance(value, str):
            return self._text(value, found, depth)
        if isinstance(value, dict):
            return {key: self._value(item, found, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(item, found, depth + 1) for item in value]
        return value

    def _text(self, text: str, found: list[str], depth: int) -> Any:
        frames = [_Frame(is_reference=False)]
        position = 0
        for start, end in _find_tokens(text):
            parts = frames[-1].parts
            if start > position:
                parts.append(text[position:start])
            position = end
            mark = text[start:end]
            n_dollars = mark.count("$")
            if mark == "}":
                self._close(frames, found, depth)
                continue
            # What stands in a reference is read again, so there an escape keeps both its dollars.
            in_reference = any(frame.is_reference for frame in frames)
            if mark[-1] != "{":
                parts.append(mark if in_reference else "$" * (n_dollars - n_dollars // 2))
                continue
            # Of an odd number the last one opens a reference; of an even number none does: it is escaped.
            n_escaped = n_dollars - n_dollars % 2
            if n_escaped:
                parts.append("$" * (n_escaped if in_reference else n_escaped // 2))
            frames.append(_Frame(is_reference=n_dollars % 2 == 1))
        if position < len(text):
            frames[-1].parts.append(text[position:])
        while len(frames) > 1:
            self._give_back(frames)
        parts = frames[0].parts
        return parts[0] if len(parts) == 1 else frames[0].text()

    def _close(self, frames: list[_Frame], found: list[str], depth: int) -> None:
        if len(frames) == 1:
            frames[0].parts.append("}")
        elif frames[-1].is_reference:
            uri = frames.pop().text()
            frames[-1].parts.append(self._reference(uri, found, depth))
        else:
            self._give_back(frames)
            frames[-1].parts.append("}")

    @staticmethod
    def _give_back(frames: list[_Frame]) -> None:
        # What was opened is no reference after all: its text stays.
        frame = frames.pop()
        frames[-1].parts += ["${" if frame.is_reference else "{", *frame.parts]

    def _reference(self, uri: str, found: list[str], depth: int) -> Any:
        if not uri.startswith("yaml:"):
            found.append("${" + hide_credentials(uri.partition(":-")[0]) + "}")
        source = self._read(uri)
        self._n_references += 1
        self._length += len(source.text)
        if self._n_references > MAX_REFERENCES or self._length > MAX_LENGTH:
            raise SourceError("too many recursive expansions")
        # A file ends in a line break, that of Windows perhaps, which no header or token wants.
        text = source.text.removesuffix("\n")
        if text != source.text:
            text = text.removesuffix("\r")
        warning = source.warning
        if not text and uri.startswith("file:"):
            warning = f"the file {source.name!r} is empty"
        if warning:
            self.warnings[Problem(self._path, warning)] = None
        if not text and source.is_literal:
            return ""
        try:
            value = syntax.parse(text).value
        except InvalidYAML:
            value = text
        if isinstance(value, str):
            return self._value(text, found, depth + 1)
        value = self._value(value, found, depth + 1)
        return Expanded(value, self._flat(text, found, depth + 1) if "$" in text else text)

    def _flat(self, text: str, found: list[str], depth: int) -> str:
        expanded = self._value(text, found, depth)
        return expanded.text if isinstance(expanded, Expanded) else expanded
