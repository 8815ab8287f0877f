"""What the `headers` key may hold, checked before anything is sent: HTTP libraries show a bad value in their errors.

Source: RFC 9110, "Field Names" and "Field Values".
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping

_IN_NAMES = frozenset(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")


def header_problems(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (field, message) for each header that cannot be sent; no message shows a value."""
    for name, value in headers.items():
        if not name or not _IN_NAMES.issuperset(name):
            yield "headers", f"expected the name of a header, got {name!r}"
        elif any((character < " " and character != "\t") or character == "\x7f" for character in value):
            yield f"headers::{name}", "expected one line of text without control characters"
