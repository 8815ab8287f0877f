"""The keys of transport security, for clients and for servers, and the reading of what they name.

Source: OpenTelemetry Collector, configtls (keys, defaults, texts); Go, package crypto/tls (names of suites and curves).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from collector.config.fields import Duration, Secret, option, section
from collector.errors import TLSFailure
from collector.ids import Pem
from collector.lean import TYPE_CHECKING, Any, pattern
from collector.threads import Lock

if TYPE_CHECKING:
    from re import Pattern

    from collector.native.tls import Tls
    from collector.telemetry.logs import Log

_VERSIONS = {"1.0": 0x0301, "1.1": 0x0302, "1.2": 0x0303, "1.3": 0x0304}
_DEFAULT_MIN = "1.2"
_GROUPS = {
    "P256": "P-256",
    "P384": "P-384",
    "P521": "P-521",
    "X25519": "X25519",
    "X25519MLKEM768": "X25519MLKEM768",
}
_TLS_1_3_SUITES = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
_SUITES = frozenset(
    f"TLS_ECDHE_{signature}_WITH_{cipher}"
    for signature in ("ECDSA", "RSA")
    for cipher in (
        "AES_128_CBC_SHA",
        "AES_256_CBC_SHA",
        "AES_128_GCM_SHA256",
        "AES_256_GCM_SHA384",
        "CHACHA20_POLY1305_SHA256",
    )
)
_INSECURE_SUITES = frozenset(
    {
        "TLS_RSA_WITH_AES_128_CBC_SHA",
        "TLS_RSA_WITH_AES_256_CBC_SHA",
        "TLS_RSA_WITH_AES_128_CBC_SHA256",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    }
)
_CERTIFICATE = pattern(r"-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----")
_CHANGE_PERIOD_S = 1.0  # what stands for the Collector's being told of a change
_KEY = pattern(r"-----BEGIN ([A-Z0-9]+ )?PRIVATE KEY-----")
_NO_CA = "failed to load TLS config: failed to load CA CertPool File"
_NO_CERTIFICATE = "failed to load TLS config: failed to load TLS cert and key"
_NO_CLIENT_CA = "failed to load client CA CertPool"
_INCOMPLETE = "TLS configuration must include both certificate and key"


@section
class TLS:
    """What clients and servers have in common."""

    ca_file: str = option("", doc="File of certificates that sign those of servers, instead of the system's.")
    ca_pem: Secret = option(Secret(""), doc="The same as text.")
    include_system_ca_certs_pool: bool = option(False, doc="Trust the system's certificates beside these.")
    cert_file: str = option("", doc="File of the certificate to show, followed by those that sign it.")
    cert_pem: Secret = option(Secret(""), doc="The same as text.")
    key_file: str = option("", doc="File of its key.")
    key_pem: Secret = option(Secret(""), doc="The same as text.")
    min_version: str = option("", doc="1.0, 1.1, 1.2 or 1.3; empty is 1.2.", values=("", *_VERSIONS))
    max_version: str = option("", doc="The same; empty is the highest.", values=("", *_VERSIONS))
    cipher_suites: tuple[str, ...] = option(
        (), doc="Suites of TLS 1.2 and older, by their IANA names; those of 1.3 are not configurable."
    )
    include_insecure_cipher_suites: bool = option(False, doc="Take suites that are known to be weak, too.")
    curve_preferences: tuple[str, ...] = option(
        (), doc="P256, P384, P521, X25519 or X25519MLKEM768, in order of preference."
    )
    reload_interval: Duration = option(
        Duration(0.0), doc="Read certificate and key again this often; 0: at SIGHUP only.", minimum=0
    )
    tpm: dict[str, Any] = option(
        factory=dict, doc="Keys in a TPM: not supported yet, only `enabled: false` is."
    )

    @property
    def min_number(self) -> int:
        """The lowest version in force as TLS writes it."""
        return _VERSIONS[self.min_version or _DEFAULT_MIN]

    @property
    def max_number(self) -> int:
        """The highest version in force; 0 is whatever there is."""
        return _VERSIONS.get(self.max_version, 0)

    @property
    def ciphers(self) -> str:
        """The suites as OpenSSL's list; empty is its default."""
        level = ":@SECLEVEL=0" if self.min_number < _VERSIONS[_DEFAULT_MIN] else ""
        names = [_openssl_suite(name) for name in self.cipher_suites if name not in _TLS_1_3_SUITES]
        return (":".join(names) or ("DEFAULT" if level else "")) + level

    @property
    def groups(self) -> str:
        """The curves as OpenSSL's list; empty is its default."""
        return ":".join(_GROUPS[name] for name in self.curve_preferences)

    @property
    def has_certificate(self) -> bool:
        """True when there is a certificate to show."""
        return bool(self.cert_file or self.cert_pem)

    @property
    def has_key(self) -> bool:
        """True when there is a key."""
        return bool(self.key_file or self.key_pem)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for each rule that the values break."""
        if self.ca_file and self.ca_pem:
            yield "ca_pem", "provide either a CA file or the PEM-encoded string, but not both"
        if self.cert_file and self.cert_pem:
            yield "cert_pem", "provide either certificate file or PEM, but not both"
        if self.key_file and self.key_pem:
            yield "key_pem", "provide either key file or PEM, but not both"
        if self.has_certificate != self.has_key:
            yield "", f"{_INCOMPLETE} (cert_file or cert_pem, and key_file or key_pem)"
        if self.tpm.get("enabled"):
            yield "tpm", "is not supported yet"
        has_versions = True
        for name in ("min_version", "max_version"):
            version = getattr(self, name)
            if version and version not in _VERSIONS:
                has_versions = False
                yield name, f'invalid TLS {name}: unsupported TLS version: "{version}"'
        if has_versions and self.max_number and self.min_number > self.max_number:
            yield "", "invalid TLS configuration: min_version cannot be greater than max_version"
        suites = (
            _SUITES | _TLS_1_3_SUITES | (_INSECURE_SUITES if self.include_insecure_cipher_suites else set())
        )
        for name in self.cipher_suites:
            if name not in suites:
                yield (
                    "cipher_suites",
                    f'invalid TLS cipher suite: "{name}"; expected one of {", ".join(sorted(suites))}',
                )
        for name in self.curve_preferences:
            if name not in _GROUPS:
                yield (
                    "curve_preferences",
                    f"invalid curve type: {name}. Expected values are {', '.join(_GROUPS)}",
                )

    def read(self) -> Pem:
        """Return what the section names.

        Raises:
            TLSFailure: a file cannot be read, or holds something else.
        """
        return Pem(
            ca=_pem(self.ca_file, self.ca_pem, _CERTIFICATE, _NO_CA, "certificate"),
            cert=_pem(self.cert_file, self.cert_pem, _CERTIFICATE, _NO_CERTIFICATE, "certificate"),
            key=_pem(self.key_file, self.key_pem, _KEY, _NO_CERTIFICATE, "private key"),
        )


@section
class TLSClient(TLS):
    """Transport security of a client."""

    insecure: bool = option(False, doc="Send in plain text; over HTTP the scheme of the endpoint decides.")
    insecure_skip_verify: bool = option(False, doc="Take any certificate, whoever signed it for whomever.")
    server_name_override: str = option("", doc="Name to ask for and to verify, instead of the endpoint's.")

    def native(self, pem: Pem, server_name: str) -> Tls:
        """Return what the native client for gRPC needs: pem is what was read, server_name that of the endpoint.

        Raises:
            TLSFailure: something in pem, or a key, cannot be used.
        """
        return _native(
            self,
            pem,
            server_name=self.server_name_override or server_name,
            alpn="h2",
            skips_verification=self.insecure_skip_verify,
            trusts_system=self.include_system_ca_certs_pool,
        )

    @property
    def is_off(self) -> bool:
        """True for plain text, as far as the section says: a certificate authority overrides `insecure`."""
        return self.insecure and not self.ca_file and not self.ca_pem


@section
class TLSServer(TLS):
    """Transport security of a server."""

    client_ca_file: str = option(
        "", doc="File of certificates that sign those of clients, who are then refused without one."
    )
    client_ca_file_reload: bool = option(False, doc="Read client_ca_file again when it has changed.")

    def native(self, pem: Pem, alpn: str) -> Tls:
        """Return what the native server needs to speak alpn: pem is what was read.

        Raises:
            TLSFailure: something in pem, or a key, cannot be used.
        """
        return _native(self, pem, is_server=True, alpn=alpn)

    @property
    def check_period_s(self) -> float:
        """How often the files are to be looked at; 0 is never."""
        if self.client_ca_file and self.client_ca_file_reload:
            return min(self.reload_interval or _CHANGE_PERIOD_S, _CHANGE_PERIOD_S)
        return self.reload_interval

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for each rule that the values break."""
        yield from TLS.problems(self)
        if not self.has_certificate and not self.has_key:
            yield "", f"{_INCOMPLETE} for server connections"

    def read(self) -> Pem:
        """Return what the section names; `ca` signs the certificates of clients, and is empty where they need none.

        Raises:
            TLSFailure: a file cannot be read, or holds something else.
        """
        own = TLS.read(self)  # a ca_file has no use in a server, but is to be one
        return own._replace(ca=_pem(self.client_ca_file, "", _CERTIFICATE, _NO_CLIENT_CA, "certificate"))


def _native(tls: TLS, pem: Pem, **keys: Any) -> Tls:
    from collector.native.tls import Tls  # OpenSSL is loaded behind it

    return Tls(
        pem,
        ciphers=tls.ciphers,
        groups=tls.groups,
        min_version=tls.min_number,
        max_version=tls.max_number,
        **keys,
    )


def _openssl_suite(name: str) -> str:
    exchange, cipher = name.removeprefix("TLS_").split("_WITH_")
    cipher = cipher.replace("POLY1305_SHA256", "POLY1305").replace("_CBC", "").replace("AES_", "AES")
    return "-".join([*([] if exchange == "RSA" else [exchange]), cipher]).replace("_", "-")


def _text(path: str, pem: str, what: str) -> str:
    if not path:
        return str(pem)
    try:
        with open(path, encoding="latin-1") as file:  # comments between certificates may have any bytes
            return file.read()
    except OSError as error:
        raise TLSFailure(f"{what}: open {path}: {(error.strerror or str(error)).lower()}") from error


def _pem(path: str, pem: str, begin: Pattern[str], what: str, kind: str) -> str:
    text = _text(path, pem, what)
    if (path or pem) and not begin.search(text):
        raise TLSFailure(f"{what}: {path or 'the PEM text'} holds no {kind} in PEM format")
    return text


class CertificateWatch:
    """Reads what a section names again, when it is told to and now and then, and hands it on when it has changed.

    What cannot be used is logged, and the last good certificates stay in use.

    Args:
        pem: what was read at the start.
        use: takes what has changed; raises TLSFailure when it cannot be used.
        every: calls back each so many seconds, until what it returns is cancelled.
        period_s: how often to look without being told to; 0 for never.
    """

    def __init__(
        self,
        tls: TLS,
        pem: Pem,
        use: Callable[[Pem], None],
        log: Log,
        *,
        every: Callable[[float, Callable[[], None]], Any],
        period_s: float,
    ) -> None:
        self._tls = tls
        self._used = pem
        self._refused: Pem | str | None = None
        self._use = use
        self._log = log
        self._lock = Lock()  # a reload and the timer look from different threads
        self._timer = every(period_s, self.check) if period_s > 0 else None

    def cancel(self) -> None:
        """Look no more but when told to."""
        if self._timer is not None:
            self._timer.cancel()

    def check(self) -> None:
        """Look, and use what is new."""
        with self._lock:
            self._check()

    def _check(self) -> None:
        pem: Pem | None = None
        try:
            pem = self._tls.read()
            if pem not in (self._used, self._refused):
                self._use(pem)
                self._used, self._refused = pem, None
                self._log.info("TLS certificates reloaded")
        except TLSFailure as error:
            if self._refused != (pem or str(error)):  # said once
                self._refused = pem or str(error)
                self._log.warning(
                    "TLS certificates not reloaded, the last ones stay in use", error=str(error)
                )
