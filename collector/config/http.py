"""The keys of HTTP servers.

Source: OpenTelemetry Collector, confighttp (keys, defaults, texts).
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.fields import Duration, Secret, option, section, unserved
from collector.config.headers import canonical_name, header_problems, is_header_name
from collector.config.network import Network, endpoint_problems
from collector.config.tls import TLSServer
from collector.lean import Any

CONTENT_ENCODINGS = ("", "gzip", "zstd", "zlib", "snappy", "deflate", "lz4", "x-snappy-framed")
"""What Content-Encoding may say; the first is that it says nothing, or `identity`."""

_DEFAULT_BODY_BYTES = 20 << 20
WRITE_TIMEOUT_S = 30.0
"""What write_timeout is by default."""
# Of the message, which the server makes, not of what it says.
_OWN_HEADERS = frozenset({"connection", "content-length", "transfer-encoding"})


@section
class Cors:
    """What pages of other origins may do. Without allowed_origins, nothing is said, and browsers refuse them."""

    allowed_origins: tuple[str, ...] = option(
        (), doc="Origins that may send; the first `*` in one stands for any text, `*` alone for all origins."
    )
    allowed_headers: tuple[str, ...] = option(
        (),
        doc="Headers that they may send, `*` for all. None allows Accept, Content-Type and X-Requested-With; name"
        " Content-Type with others, since JSON and protobuf need it.",
    )
    exposed_headers: tuple[str, ...] = option((), doc="Headers of answers that they may see.")
    max_age: int = option(
        0,
        doc="How long browsers may remember this; 0 leaves it to them, less forbids it.",
        unit="seconds",
        minimum=-(1 << 31),
        maximum=(1 << 31) - 1,
    )

    @property
    def is_on(self) -> bool:
        """False when no origin is allowed."""
        return bool(self.allowed_origins)

    @property
    def shuts_out_bodies(self) -> bool:
        """True when browsers may send, but neither JSON nor protobuf, for lack of Content-Type."""
        names = [name.lower() for name in self.allowed_headers]
        return self.is_on and bool(names) and "content-type" not in names and "*" not in names

    @property
    def exposed(self) -> str:
        """Value of the header that names the exposed ones."""
        return ", ".join(map(canonical_name, self.exposed_headers))

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield names that are none."""
        for key in ("allowed_headers", "exposed_headers"):
            for name in getattr(self, key):
                if not is_header_name(name):
                    yield key, f"expected the name of a header, got {name!r}"


@section
class HttpKeepalive:
    """Life of HTTP connections between requests."""

    enabled: bool = option(True, doc="False: no limit of its own to idleness; read_timeout limits it.")
    idle_timeout: Duration = option(
        Duration(60.0), doc="Close a connection without a request this long; 0 or less is read_timeout."
    )


@section
class HttpServer:
    """A server of HTTP."""

    endpoint: str = option("", doc="`host:port`, or the path of a unix socket.")
    transport: Network = option(Network.TCP, doc="What endpoint is.")
    max_request_body_size: int = option(
        _DEFAULT_BODY_BYTES,
        doc="Largest body, before and after decompression; 0 or less is 20 MiB.",
        unit="bytes",
    )
    compression_algorithms: tuple[str, ...] = option(
        CONTENT_ENCODINGS,
        doc="Values of Content-Encoding that are accepted, '' for none; an empty list takes bodies as they come,"
        " whatever it says.",
        choices=(*CONTENT_ENCODINGS, "identity"),
    )
    read_timeout: Duration = option(
        Duration(60.0),
        doc="A request must be complete within this; 0 is no limit, as the Collector has it by default.",
    )
    read_header_timeout: Duration = option(
        Duration(60.0), doc="The head of a request must be complete within this; 0 is read_timeout."
    )
    write_timeout: Duration = option(
        Duration(WRITE_TIMEOUT_S), doc="An answer must be taken within this; 0 is no limit."
    )
    keepalive: HttpKeepalive = option(factory=HttpKeepalive, doc="Connections between requests.")
    idle_timeout: Duration | None = option(None, doc="Older name of keepalive::idle_timeout.")
    keep_alives_enabled: bool = option(
        True, doc="False closes a connection after one request; a key of older Collectors."
    )
    response_headers: dict[str, Secret] = option(factory=dict, doc="Headers added to every answer.")
    cors: Cors | None = option(None, doc="What pages of other origins may do.")
    tls: TLSServer | None = option(None, doc="Transport security; null is plain text.")
    auth: Any = unserved("keep the endpoint where only its clients reach it")
    include_metadata: bool = option(
        False,
        doc="Keep with each request the headers that processors behind it ask for: `batch`, `attributes`, `resource`.",
    )
    middlewares: Any = unserved()

    @property
    def max_message_bytes(self) -> int:
        """The size limit in force, in bytes."""
        return self.max_request_body_size if self.max_request_body_size > 0 else _DEFAULT_BODY_BYTES

    @property
    def read_timeout_s(self) -> float:
        """The limit of a whole request in force; 0 is none."""
        return max(0.0, self.read_timeout)

    @property
    def header_timeout_s(self) -> float:
        """The limit of its head in force; 0 is none."""
        return max(0.0, self.read_header_timeout) or self.read_timeout_s

    @property
    def idle_timeout_s(self) -> float:
        """The limit of a connection without a request in force; 0 is none."""
        idle_s = self.keepalive.idle_timeout if self.keepalive.enabled else 0.0
        if self.idle_timeout is not None:
            idle_s = self.idle_timeout
        return max(0.0, idle_s) or self.read_timeout_s

    @property
    def header_lines(self) -> str:
        """The response headers as lines; Content-Type is what the body is, whatever they say."""
        lines = ""
        for name, value in self.response_headers.items():
            if name.lower() != "content-type":
                lines += f"{canonical_name(name)}: {value!s}\r\n"
        return lines

    def listens_at(self) -> Iterator[tuple[str, str, str]]:
        """Yield the only address."""
        yield "endpoint", self.transport, self.endpoint

    def problems_in_use(self) -> Iterator[tuple[str, str]]:
        """Yield addresses and headers that are none."""
        yield from endpoint_problems(self)
        yield from header_problems(self.response_headers, "response_headers")
        for name in self.response_headers:
            if name.lower() in _OWN_HEADERS:
                yield f"response_headers::{name}", "is set by the server itself"
