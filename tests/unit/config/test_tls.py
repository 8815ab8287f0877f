"""The section `tls`: rules, names, and what the files hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from collector.config.decode import decode
from collector.config.fields import Duration, Secret
from collector.config.tls import CertificateWatch, TLSClient, TLSServer
from collector.errors import ConfigError, TLSFailure
from collector.ids import Pem

SERVER = {"cert_file": "c", "key_file": "k"}
CERT = "-----BEGIN CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\n"


def problems(config_class: type[Any], keys: dict[str, Any]) -> list[str]:
    """Return what is wrong with keys."""
    try:
        decode(config_class, keys, "tls")
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("config_class", "keys", "text"),
    [
        (TLSServer, {}, "TLS configuration must include both certificate and key for server connections"),
        (TLSServer, {**SERVER, "server_name_override": "x"}, "has invalid keys: server_name_override"),
        (TLSClient, {"client_ca_file": "x"}, "has invalid keys: client_ca_file"),
        (TLSClient, {"cert_file": "c"}, "TLS configuration must include both certificate and key"),
        (TLSClient, {"key_pem": "k"}, "TLS configuration must include both certificate and key"),
        (
            TLSClient,
            {"ca_file": "a", "ca_pem": "b"},
            "provide either a CA file or the PEM-encoded string, but not both",
        ),
        (TLSServer, {**SERVER, "cert_pem": "x"}, "provide either certificate file or PEM, but not both"),
        (TLSServer, {**SERVER, "key_pem": "x"}, "provide either key file or PEM, but not both"),
        (TLSClient, {"min_version": "1.9"}, 'invalid TLS min_version: unsupported TLS version: "1.9"'),
        (TLSClient, {"max_version": "x"}, 'invalid TLS max_version: unsupported TLS version: "x"'),
        (
            TLSClient,
            {"min_version": "1.3", "max_version": "1.2"},
            "min_version cannot be greater than max_version",
        ),
        (TLSClient, {"max_version": "1.1"}, "min_version cannot be greater than max_version"),
        (TLSClient, {"cipher_suites": ["X"]}, 'invalid TLS cipher suite: "X"'),
        (
            TLSClient,
            {"cipher_suites": ["TLS_RSA_WITH_AES_128_CBC_SHA"]},
            'invalid TLS cipher suite: "TLS_RSA_WITH_AES_128_CBC_SHA"',
        ),
        (TLSClient, {"curve_preferences": ["X"]}, "invalid curve type: X. Expected values are P256"),
        (TLSClient, {"tpm": {"enabled": True}}, "is not supported yet"),
        (TLSClient, {"reload_interval": "-1s"}, "expected at least 0s"),
    ],
)
def test_rules_are_the_collectors(config_class: type[Any], keys: dict[str, Any], text: str) -> None:
    """Each rule has one message, in the Collector's words where it has some."""
    (message,) = problems(config_class, keys)
    assert text in message


def test_every_key_of_the_collector_is_taken() -> None:
    """A section with all of them decodes."""
    common = {
        "ca_file": "a",
        "include_system_ca_certs_pool": True,
        **SERVER,
        "min_version": "1.0",
        "max_version": "1.3",
        "cipher_suites": ["TLS_RSA_WITH_AES_128_CBC_SHA"],
        "include_insecure_cipher_suites": True,
        "curve_preferences": ["X25519", "P256"],
        "reload_interval": "1h",
        "tpm": {"enabled": False},
    }
    assert problems(TLSServer, {**common, "client_ca_file": "x", "client_ca_file_reload": True}) == []
    assert (
        problems(
            TLSClient,
            {**common, "insecure": True, "insecure_skip_verify": True, "server_name_override": "x"},
        )
        == []
    )


def test_secrets_are_not_shown() -> None:
    """A key that stands in the configuration is in no log."""
    assert "TOP" not in repr(TLSClient(cert_pem=Secret("x"), key_pem=Secret("TOP")))


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", "ECDHE-ECDSA-AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("TLS_AES_128_GCM_SHA256", ""),
    ],
)
def test_suites_have_openssls_names(suite: str, name: str) -> None:
    """What Go calls a suite becomes what OpenSSL calls it; those of TLS 1.3 are always on."""
    assert name == TLSClient(cipher_suites=(suite,)).ciphers


def test_old_versions_lower_openssls_level() -> None:
    """OpenSSL would otherwise refuse what min_version allows."""
    assert TLSClient().ciphers == ""
    assert TLSClient(min_version="1.1").ciphers == "DEFAULT:@SECLEVEL=0"


@pytest.mark.parametrize(
    ("keys", "check_s"),
    [
        ({}, 0),
        ({"reload_interval": Duration(60)}, 60),
        ({"client_ca_file_reload": True}, 0),
        ({"client_ca_file_reload": True, "client_ca_file": "x"}, 1),
        ({"client_ca_file_reload": True, "client_ca_file": "x", "reload_interval": Duration(0.5)}, 0.5),
    ],
)
def test_files_are_looked_at_as_often_as_is_wished(keys: dict[str, Any], check_s: float) -> None:
    """Never by default."""
    assert check_s == TLSServer(**keys).check_period_s


def test_files_are_read_whatever_their_comments(tmp_path: Path) -> None:
    """Bytes that are no text may stand between certificates."""
    (tmp_path / "c").write_bytes(b"\xff\xfe comment\n" + CERT.encode())
    (tmp_path / "k").write_text(KEY)
    pem = TLSClient(cert_file=str(tmp_path / "c"), key_file=str(tmp_path / "k")).read()
    assert Pem("", "\xff\xfe comment\n" + CERT, KEY) == pem


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"ca_file": "{}"}, "failed to load CA CertPool File: open {}: is a directory"),
        ({"cert_pem": Secret(KEY)}, "failed to load TLS cert and key: the PEM text holds no certificate"),
        ({"key_pem": Secret(CERT)}, "failed to load TLS cert and key: the PEM text holds no private key"),
    ],
)
def test_what_is_something_else_is_told(tmp_path: Path, keys: dict[str, Any], text: str) -> None:
    """The message names the file and what was expected in it."""
    named = {name: type(value)(value.format(tmp_path)) for name, value in keys.items()}
    with pytest.raises(TLSFailure) as caught:
        TLSClient(**named).read()
    assert text.format(tmp_path) in str(caught.value)


class Log:
    """Counts what is said."""

    def __init__(self) -> None:
        self.infos: list[str] = []
        self.warnings: list[str] = []

    def info(self, event: str, **_fields: object) -> None:
        """Keep event."""
        self.infos.append(event)

    def warning(self, _event: str, *, error: str) -> None:
        """Keep error."""
        self.warnings.append(error)


def test_watch_uses_what_has_changed_and_says_so_once(tmp_path: Path) -> None:
    """An unchanged file is nothing new; a bad one is told once, until it is another one."""
    file = tmp_path / "ca"
    file.write_text(CERT)
    tls = TLSClient(ca_file=str(file))
    used: list[str] = []
    log: Any = Log()

    def use(pem: Pem) -> None:
        if "bad" in pem.ca:
            raise TLSFailure("bad")
        used.append(pem.ca)

    watch = CertificateWatch(tls, tls.read(), use, log, every=lambda *_: None, period_s=0)
    for text in (
        "",
        CERT + "1",
        CERT + "bad",
        CERT + "bad",
        CERT + "bad2",
        "torn",
        "torn",
        CERT + "1",
        CERT + "2",
    ):
        if text:
            file.write_text(text)
        watch.check()
    assert [CERT + "1", CERT + "2"] == used
    assert len(log.infos) == 2
    assert ["bad", "bad"] == log.warnings[:2]
    assert len(log.warnings) == 3
