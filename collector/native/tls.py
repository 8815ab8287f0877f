"""Certificates and limits of TLS as the native transport uses them. OpenSSL is loaded with the first one."""

from __future__ import annotations

from collector.errors import TLSFailure
from collector.ids import Pem
from collector.lean import Any, NamedTuple
from collector.native.errors import new_error
from collector.native.library import ffi, lib

_REASON_BYTES = 256


class Failures(NamedTuple):
    """How many handshakes a server has seen fail, and why the last one did."""

    number: int
    reason: str


class Tls:
    """What the connections of a client or of a listener have in common; safe in any thread.

    Args:
        pem: certificates and key; those of clients are signed by `ca`, and needed, where a server has one.
        alpn: the one protocol spoken: `h2` or `http/1.1`.
        server_name: a client's: to ask for and to verify.
        min_version, max_version: as TLS writes them; 0 is OpenSSL's own.
        ciphers, groups: OpenSSL's lists; empty is its default.

    Raises:
        TLSFailure: something here cannot be used.
    """

    def __init__(
        self,
        pem: Pem,
        *,
        alpn: str,
        is_server: bool = False,
        server_name: str = "",
        skips_verification: bool = False,
        trusts_system: bool = False,
        ciphers: str = "",
        groups: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self._values = {
            "is_server": is_server,
            "skips_verification": skips_verification,
            "trusts_system": trusts_system,
            "min_version": min_version,
            "max_version": max_version,
        }
        self._texts = {"alpn": alpn, "server_name": server_name, "ciphers": ciphers, "groups": groups}
        error = new_error()
        config, _kept = self._config(pem)
        pointer = lib.ss_tls_new(config, error)
        if pointer == ffi.NULL:
            raise _failure(error)
        self.pointer = ffi.gc(pointer, lib.ss_tls_free)

    def use(self, pem: Pem) -> None:
        """Show and trust pem from the next connection on.

        Raises:
            TLSFailure: it cannot be used; the last one stays.
        """
        error = new_error()
        config, _kept = self._config(pem)
        if lib.ss_tls_replace(self.pointer, config, error) != lib.SS_OK:
            raise _failure(error)

    def failures(self) -> Failures:
        """Return a server's failed handshakes."""
        text = ffi.new("char[]", _REASON_BYTES)
        count = lib.ss_tls_failures(self.pointer, text, _REASON_BYTES)
        return Failures(int(count), ffi.string(text).decode(errors="replace"))

    def _config(self, pem: Pem) -> tuple[Any, list[Any]]:
        texts = {**self._texts, **pem._asdict()}
        kept = {name: ffi.new("char[]", text.encode("latin-1")) for name, text in texts.items()}
        return ffi.new("ss_tls_config *", {**self._values, **kept}), list(kept.values())


def _failure(error: Any) -> TLSFailure:
    reason = error.reason if error.reason != ffi.NULL else lib.ss_status_text(error.code)
    return TLSFailure(f"failed to load TLS config: {ffi.string(reason).decode()}")
