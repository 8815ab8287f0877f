"""The `tls` section of exporters, which send in plain text only, for now.

Source: OpenTelemetry Collector, configtls (keys and defaults).
"""

from __future__ import annotations

from collector.config.fields import Duration, Secret, option, section

_DOC = "Accepted for compatibility: without TLS it means nothing."


@section
class TLS:
    """The Collector's keys. An exporter refuses what would need TLS, so that those about its details do no harm."""

    insecure: bool = option(False, doc="Send in plain text. TLS is not supported yet.")
    insecure_skip_verify: bool = option(False, doc=_DOC)
    server_name_override: str = option("", doc=_DOC)
    ca_file: str = option("", doc=_DOC)
    ca_pem: Secret = option(Secret(""), doc=_DOC)
    cert_file: str = option("", doc=_DOC)
    cert_pem: Secret = option(Secret(""), doc=_DOC)
    key_file: str = option("", doc=_DOC)
    key_pem: Secret = option(Secret(""), doc=_DOC)
    include_system_ca_certs_pool: bool = option(False, doc=_DOC)
    min_version: str = option("", doc=_DOC)
    max_version: str = option("", doc=_DOC)
    cipher_suites: tuple[str, ...] = option((), doc=_DOC)
    curve_preferences: tuple[str, ...] = option((), doc=_DOC)
    reload_interval: Duration = option(Duration(0.0), doc=_DOC)
