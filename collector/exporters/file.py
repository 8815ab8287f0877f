"""Write requests to a file: OTLP/JSON lines, or length-prefixed protobuf; either compressed with zstd.

One line, or one record of a 4-byte big-endian length and that many bytes, is one request. With compression each
record is a zstd frame, also for JSON. Exporters of several signals, and those of a reloaded configuration, that name
one path share one open file. Each record is written at once, whole or not at all.

Others may rename, delete or shorten the file. One that was deleted is made anew with the next record, and SIGHUP opens
the path again, so that logrotate and its like need no `copytruncate`.

Source: OpenTelemetry Collector contrib, fileexporter (keys, defaults, framing, names of rotated files).
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator

from collector.component import Factory, Settings, Stability
from collector.config.fields import Duration, option, section, unserved
from collector.errors import MalformedInput, PermanentError, RetryableError, StartError
from collector.exporterhelper.queue import QueueConfig, QueueSender
from collector.exporterhelper.request import Request, Sent
from collector.exporterhelper.retry import RetryConfig
from collector.ids import Signal
from collector.lean import Any, StrEnum
from collector.native.json import otlp_to_json
from collector.telemetry.instruments import Sample
from collector.threads import Lock

_DAY_S = 86400
_DEFAULT_MEGABYTES = 100
_DEFAULT_PERMISSIONS = 0o755
_OCTAL_DIGITS = frozenset("01234567")
_REASON = "-size"
"""What the name of a rotated file ends in: why it was rotated."""


class Format(StrEnum):
    """How requests are written."""

    JSON = "json"
    PROTO = "proto"


class Compression(StrEnum):
    """What records are compressed with."""

    NONE = "none"
    ZSTD = "zstd"


@section
class Rotation:
    """The `rotation` section."""

    max_megabytes: int = option(
        _DEFAULT_MEGABYTES,
        doc="Start a new file before this one grows larger; 0 is 100.",
        unit="MiB",
        minimum=0,
    )
    max_days: int = option(
        0, doc="Delete rotated files older than this; 0 for never.", unit="days", minimum=0
    )
    max_backups: int = option(100, doc="Rotated files to keep; 0 for all.", minimum=0)
    localtime: bool = option(False, doc="Name rotated files by local time instead of UTC.")

    @property
    def max_bytes(self) -> int:
        """The size in force."""
        return (self.max_megabytes or _DEFAULT_MEGABYTES) * 2**20


@section
class Config:
    """The exporter's keys."""

    path: str = option("", doc="File to write.")
    create_directory: bool = option(False, doc="Make its folder where there is none.")
    directory_permissions: str = option("", doc="Of a folder that is made, in octal; empty is 0755.")
    format: Format = option(Format.JSON, doc="json (a line a request) or proto (length-prefixed).")
    compression: Compression = option(
        Compression.NONE, doc="none or zstd (length-prefixed frames).", synonyms={"": Compression.NONE.value}
    )
    compression_params: Any = unserved()
    encoding: Any = unserved()
    group_by: Any = unserved()
    append: bool = option(False, doc="Add to an existing file instead of emptying it.")
    rotation: Rotation | None = option(None, doc="Start new files by size; off without this section.")
    flush_interval: Duration = option(
        Duration(1.0), doc="Accepted for compatibility: each request is written at once.", minimum=0
    )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for each rule that the values break."""
        if not self.path:
            yield "path", "path must be non-empty"
        if self.directory_permissions and not self.create_directory:
            yield "directory_permissions", "directory_permissions requires create_directory to be true"
        if not _OCTAL_DIGITS.issuperset(self.directory_permissions):
            yield "directory_permissions", "directory_permissions value must be a valid octal representation"
        if self.append and self.rotation is not None:
            yield "append", "append and rotation enabled at the same time is not supported"


class RecordFile:
    """An open file that takes whole records and rotates; safe in any thread.

    Args:
        config: of whoever opens it first.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._path = os.path.abspath(config.path)
        self._lock = Lock()
        self._fd = self._open(empty=not config.append)
        self._rotated_ms = 0  # in the name of the last rotated file

    def write(self, record: bytes) -> None:
        """Write record whole, in a new file when this one would grow too large.

        Raises:
            OSError: nothing of record is left in the file.
        """
        with self._lock:
            rotation = self._config.rotation
            file = os.fstat(self._fd)
            if not file.st_nlink:
                self._replace(self._open(empty=False))  # somebody has deleted it
                file = os.fstat(self._fd)
            if rotation and file.st_size and file.st_size + len(record) > rotation.max_bytes:
                self._rotate(rotation)
                file = os.fstat(self._fd)
            view = memoryview(record)
            try:
                while view:
                    view = view[os.write(self._fd, view) :]
            except OSError:
                os.ftruncate(self._fd, file.st_size)  # half a record would spoil the ones behind it
                raise

    def refresh(self, config: Config) -> None:
        """Write as config says from now on, and to what is at the path now.

        Raises:
            OSError: it cannot be opened; the file is the one before.
        """
        with self._lock:
            self._config = config
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(self._path), os.fstat(self._fd)):
                    return
            self._replace(self._open(empty=False))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._fd)

    def _open(self, *, empty: bool) -> int:
        config = self._config
        if config.create_directory:
            permissions = int(config.directory_permissions or "0", 8) or _DEFAULT_PERMISSIONS
            os.makedirs(os.path.dirname(self._path), permissions, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_TRUNC if empty else 0)
        return os.open(self._path, flags, 0o644)

    def _replace(self, fd: int) -> None:
        os.close(self._fd)
        self._fd = fd

    def _rotate(self, rotation: Rotation) -> None:
        now = time.time()
        with contextlib.suppress(
            FileNotFoundError
        ):  # taken away, or renamed before a new one could be opened
            os.rename(self._path, self._backup_name(now, rotation))
        self._replace(self._open(empty=True))
        self._remove_old(rotation, now)

    def _backup_name(self, now: float, rotation: Rotation) -> str:
        stem, extension = os.path.splitext(self._path)
        # Always later than the one before: names sort by age, and no file replaces another.
        self._rotated_ms = max(int(now * 1000), self._rotated_ms + 1)
        seconds, milliseconds = divmod(self._rotated_ms, 1000)
        if rotation.localtime:
            time.tzset()  # the zone may have changed
        moment = time.localtime(seconds) if rotation.localtime else time.gmtime(seconds)
        return f"{stem}-{time.strftime('%Y-%m-%dT%H-%M-%S', moment)}.{milliseconds:03d}{_REASON}{extension}"

    def _remove_old(self, rotation: Rotation, now: float) -> None:
        folder = os.path.dirname(self._path) or "."
        stem, extension = os.path.splitext(os.path.basename(self._path))
        backups = sorted(
            (
                entry
                for entry in os.scandir(folder)
                if entry.name.startswith(f"{stem}-") and entry.name.endswith(extension) and entry.is_file()
                if _is_stamp(entry.name[len(stem) + 1 : len(entry.name) - len(extension)])
            ),
            key=lambda entry: entry.name,
            reverse=True,
        )
        for age, entry in enumerate(backups):
            is_surplus = 0 < rotation.max_backups <= age
            is_old = rotation.max_days and entry.stat().st_mtime < now - rotation.max_days * _DAY_S
            if is_surplus or is_old:
                os.unlink(entry.path)


def _is_stamp(text: str) -> bool:
    """Tell whether text is the time in the name of a rotated file: other people's files are left alone."""
    stamp = text.removesuffix(_REASON)  # older Collectors have only the time
    shape = "".join("0" if character.isdecimal() else character for character in stamp)
    return shape == "0000-00-00T00-00-00.000"


_open_files: dict[str, tuple[RecordFile, int]] = {}  # by absolute path, with the number of users
_open_files_lock = Lock()


def _acquire(config: Config) -> RecordFile:
    path = os.path.abspath(config.path)
    with _open_files_lock:
        if path in _open_files:
            file, users = _open_files[path]
            file.refresh(config)
        else:
            file, users = RecordFile(config), 0
        _open_files[path] = (file, users + 1)
        return file


def _release(config: Config) -> None:
    path = os.path.abspath(config.path)
    with _open_files_lock:
        file, users = _open_files.pop(path)
        if users > 1:
            _open_files[path] = (file, users - 1)
        else:
            file.close()


class File:
    """The exporter of one signal."""

    def __init__(self, config: Config, settings: Settings) -> None:
        self._config = config
        self._settings = settings
        self._signal = settings.own_signal
        self._file: RecordFile | None = None
        self._codec: Any = None
        # One consumer keeps requests in order; a full disk is waited for.
        self._queue = QueueSender(
            settings, self._send, queue=QueueConfig(num_consumers=1), retry=RetryConfig(), timeout_s=0
        )
        self.consumer = self._queue.consumer

    def start(self) -> None:
        """Open the file.

        Raises:
            StartError: it cannot be written.
        """
        if self._config.compression is Compression.ZSTD:
            from collector.native.codec import Codec

            self._codec = Codec()
        try:
            self._file = _acquire(self._config)
        except OSError as error:
            advice = "; create_directory: true makes its folder" if error.errno == errno.ENOENT else ""
            raise StartError(self._settings.id, f"{self._problem(error)}{advice}") from error
        self._queue.start()

    def shutdown(self, deadline_s: float) -> None:
        """Write what is queued within deadline_s seconds, then close the file."""
        self._queue.shutdown(deadline_s)
        if self._file is not None:
            self._file = None
            _release(self._config)

    def refresh(self) -> None:
        """Write to what is at the path now: the file may have been renamed."""
        if self._file is not None:
            try:
                self._file.refresh(self._config)
            except OSError as error:
                self._settings.log.warning("file not opened again", error=self._problem(error))

    def samples(self) -> Iterator[Sample]:
        """Return the exporter's metrics as they are now."""
        return self._queue.samples()

    def _send(self, request: Request, limit_s: float | None) -> Sent:
        del limit_s
        record = self._record(request)
        if self._file is None:
            raise PermanentError("the file is closed")
        try:
            self._file.write(record)
        except OSError as error:
            raise RetryableError(self._problem(error)) from error
        return Sent(len(record))

    def _problem(self, error: OSError) -> str:
        return f"cannot write {self._config.path!r}: {(error.strerror or str(error)).lower()}"

    def _record(self, request: Request) -> bytes:
        message: Any = request.view
        if self._config.format is Format.JSON:
            try:
                message = otlp_to_json(self._signal, message)
            except MalformedInput as error:
                raise PermanentError(str(error)) from error
        if self._codec is not None:
            message = self._codec.compress("zstd", message)
        elif self._config.format is Format.JSON:
            return bytes(message) + b"\n"
        return len(message).to_bytes(4, "big") + bytes(message)


factory = Factory(
    config=Config,
    create=File,
    signals=frozenset(Signal),
    stability=Stability.BETA,
    example="path: /var/lib/spansieve/out.jsonl",
)
