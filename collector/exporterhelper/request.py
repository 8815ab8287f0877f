"""What an exporter's send function is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable

from collector.lean import Any, NamedTuple


class Request(NamedTuple):
    """One serialized Export*ServiceRequest on its way out.

    Attributes:
        view: buffer over the message; valid while it is being sent.
        item_count: spans, data points or log records in it.
        size: bytes of the message before compression.
        encoding: what view is compressed with; a value of native.codec.Encoding.
        cancel_fd: readable once nobody wants it sent any more; -1 for never.
    """

    view: Any
    item_count: int
    size: int
    encoding: str
    cancel_fd: int = -1


class Sent(NamedTuple):
    """A request that was delivered.

    Attributes:
        wire_bytes: what went out, after compression; with HTTP/2 framing, without HTTP/1 heads.
        rejected_items: of a partial success; they count as sent too, as in the Collector.
        rejected_message: its text; may come without rejected items, as a warning.
    """

    wire_bytes: int = 0
    rejected_items: int = 0
    rejected_message: str = ""


Send = Callable[[Request, float | None], Sent]
"""Make one attempt within so many seconds (None: no limit).

Raises:
    RetryableError: another attempt may succeed.
    PermanentError: none will.
"""
