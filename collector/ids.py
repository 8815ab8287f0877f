"""Plain value types that every layer shares: signals and component identities."""

from __future__ import annotations

from collector.errors import CollectorError
from collector.lean import Enum, NamedTuple

_TYPE_MAX = 63
_NAME_MAX = 1024
_ASCII_SYMBOLS = "$+<=>^`|~"


class Signal(Enum):
    """What flows: the value is the word used in YAML; number is the C enum's."""

    TRACES = "traces"
    METRICS = "metrics"
    LOGS = "logs"

    @property
    def number(self) -> int:
        """The value of ss_signal."""
        return _SIGNALS.index(self)

    @property
    def items(self) -> str:
        """The plural used in metric names: spans, metric_points, log_records."""
        return ("spans", "metric_points", "log_records")[self.number]


_SIGNALS = list(Signal)


class Pem(NamedTuple):
    """What the files and texts of a section `tls` hold, in PEM format; empty where it names none.

    Attributes:
        ca: trusted for the peer's certificate.
        cert, key: to show to the peer.
    """

    ca: str
    cert: str
    key: str


class Kind(Enum):
    """The five kinds of component; the value is the section in YAML and the folder here."""

    RECEIVER = "receivers"
    PROCESSOR = "processors"
    EXPORTER = "exporters"
    CONNECTOR = "connectors"
    EXTENSION = "extensions"

    @property
    def singular(self) -> str:
        """The word used in messages and metric labels."""
        return self.value[:-1]


class InvalidID(CollectorError):
    """Text that is no component id."""


class ComponentID(NamedTuple):
    """`type[/name]`, as written in YAML."""

    type: str
    name: str = ""

    @classmethod
    def parse(cls, text: str) -> ComponentID:
        """Return the id for text.

        Raises:
            InvalidID: with the Collector's wording.
        """
        component_type, slash, name = text.partition("/")
        component_type, name = component_type.strip(), name.strip()
        if not component_type:
            raise InvalidID(
                f'in "{text}" id: the part before / should not be empty' if slash else "id must not be empty"
            )
        if slash and not name:
            raise InvalidID(f'in "{text}" id: the part after / should not be empty')
        if len(component_type) > _TYPE_MAX or not is_identifier(component_type) or component_type[0] == "_":
            raise InvalidID(f'in "{text}" id: invalid character(s) in type "{component_type}"')
        if len(name) > _NAME_MAX or not all(map(_is_allowed, name)):
            raise InvalidID(f'in "{text}" id: invalid character(s) in name "{name}"')
        return cls(component_type, name)

    def __str__(self) -> str:
        return f"{self.type}/{self.name}" if self.name else self.type


def is_identifier(text: str) -> bool:
    """Tell whether text is a letter or underscore, then these and digits, all of ASCII."""
    return text.isascii() and text.isidentifier()


def _is_allowed(character: str) -> bool:
    """Tell whether character may stand in a name: none of Unicode's separators, controls and symbols may."""
    if character.isascii():
        return character.isprintable() and character != " " and character not in _ASCII_SYMBOLS
    import unicodedata  # for few names

    return unicodedata.category(character)[0] not in "ZCS"
