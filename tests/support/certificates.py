"""Certificates of an authority of our own, as files."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import NamedTuple

import trustme

LONG_AGO = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class Files(NamedTuple):
    """A certificate with its chain, and its key."""

    cert: str
    key: str

    @property
    def keys(self) -> dict[str, str]:
        """The keys of a section `tls` that show it."""
        return {"cert_file": self.cert, "key_file": self.key}


class Authority:
    """Signs certificates, which it writes into folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.file = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.file)

    @property
    def pem(self) -> str:
        """Its own certificate."""
        return self._ca.cert_pem.bytes().decode()

    def issue(self, *names: str, file: str = "server", **limits: datetime.datetime) -> Files:
        """Return a certificate for names (DNS names, IP addresses), written to files that begin with file.

        Args:
            limits: `not_before`, `not_after`.
        """
        made = self._ca.issue_cert(*(names or ("localhost", "127.0.0.1")), **limits)
        files = Files(str(self._folder / f"{file}.crt"), str(self._folder / f"{file}.key"))
        chain = b"".join(part.bytes() for part in made.cert_chain_pems)
        Path(files.cert).write_bytes(chain)
        made.private_key_pem.write_to_path(files.key)
        return files

    def expired(self, *names: str) -> Files:
        """Return a certificate that was good long ago."""
        return self.issue(
            *names, file="expired", not_before=LONG_AGO, not_after=LONG_AGO + datetime.timedelta(days=1)
        )
