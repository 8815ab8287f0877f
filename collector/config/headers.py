"""What keys that hold headers may hold, checked before anything is sent: libraries show a bad value in their errors.

Sources: RFC 9110, "Field Names" and "Field Values"; RFC 7617 (Basic).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_IN_NAMES = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def is_header_name(name: str) -> bool:
    """Tell whether a header can be called name."""
    return bool(name) and _IN_NAMES.issuperset(name)


def canonical_name(name: str) -> str:
    """Return the name of a header as it is usually written, such as `Content-Type`."""
    return "-".join(part.capitalize() for part in name.split("-"))


def split_user(url: str) -> tuple[str, str]:
    """Return url without user and password, and those, as `user:password` with their percent-encoding."""
    scheme, separator, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    user, _, host = authority.rpartition("@")
    return f"{scheme}{separator}{host}{slash}{path}", user


def basic_authorization(user: str) -> str:
    """Return the value of Authorization for user, `name:password` percent-encoded as in a URL."""
    import binascii  # only where something is sent to a URL, as the other
    import urllib.parse

    name, _, password = user.partition(":")
    plain = urllib.parse.unquote_to_bytes(name) + b":" + urllib.parse.unquote_to_bytes(password)
    return "Basic " + binascii.b2a_base64(plain, newline=False).decode()


def header_problems(headers: Mapping[str, str], key: str = "headers") -> Iterator[tuple[str, str]]:
    """Yield (field, message) for each header that cannot be sent; no message shows a value."""
    for name, value in headers.items():
        if not is_header_name(name):
            yield key, f"expected the name of a header, got {name!r}"
        elif any((character < " " and character != "\t") or character == "\x7f" for character in value):
            yield f"{key}::{name}", "expected one line of text without control characters"
