"""The `ssl` context of a client, from its section `tls`; imported only by exporters that use TLS in Python.

Source: OpenTelemetry Collector, configtls.
"""

from __future__ import annotations

import os
import ssl

from collector.config.tls import TLSClient
from collector.errors import TLSFailure
from collector.ids import Pem

_PREFIX = "failed to load TLS config"
_WORDS = {"KEY_VALUES_MISMATCH": "private key does not match public key"}


def client_context(tls: TLSClient, pem: Pem) -> ssl.SSLContext:
    """Return the context of clients with tls, whose files hold pem.

    Raises:
        TLSFailure: something in them cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        _limit(context, tls)
        if tls.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if not pem.ca or tls.include_system_ca_certs_pool:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        if pem.ca:
            context.load_verify_locations(cadata=_only_certificates(pem.ca))
        if pem.cert:
            _load_certificate(context, pem)
    except (ssl.SSLError, ValueError) as error:
        raise TLSFailure(f"{_PREFIX}: {reason(error)}") from error
    return context


def reason(error: Exception) -> str:
    """Return what an error of TLS says, without the numbers and places of OpenSSL's text."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"failed to verify certificate: {error.verify_message}"
    name = getattr(error, "reason", None)
    if not isinstance(name, str):
        return str(error)
    return _WORDS.get(name) or name.lower().replace("_", " ")


def _limit(context: ssl.SSLContext, tls: TLSClient) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # versions before 1.2: who asks for them knows
        context.minimum_version = ssl.TLSVersion(tls.min_number)
    if tls.max_number:
        context.maximum_version = ssl.TLSVersion(tls.max_number)
    if tls.ciphers:
        context.set_ciphers(tls.ciphers)
    if tls.groups:
        context.set_ecdh_curve(tls.groups)


def _only_certificates(pem: str) -> str:
    """Return the certificates of pem without what stands between them, which need not be ASCII."""
    return pem.encode("latin-1").decode("ascii", "ignore")


def _load_certificate(context: ssl.SSLContext, pem: Pem) -> None:
    """Load certificate and key, which `ssl` takes only from files: from one in memory."""
    file = os.memfd_create("certificate")
    try:
        os.write(file, f"{pem.cert}\n{pem.key}".encode("latin-1"))
        context.load_cert_chain(f"/proc/self/fd/{file}", password="")  # an encrypted key is not asked for
    finally:
        os.close(file)
