"""The keys that the clients of OTLP share, whatever their protocol.

Source: OpenTelemetry Collector, configgrpc and confighttp (ClientConfig), exporterhelper.
"""

from __future__ import annotations

from collections.abc import Iterator

from collector.config.fields import Secret, option, section, unserved
from collector.config.headers import header_problems
from collector.exporterhelper.compression import CompressionParams
from collector.exporterhelper.queue import QueueConfig
from collector.exporterhelper.retry import RetryConfig
from collector.lean import Any


@section
class ClientConfig:
    """A client that sends what a queue holds."""

    compression_params: CompressionParams = option(factory=CompressionParams, doc="How hard to compress.")
    headers: dict[str, Secret] = option(factory=dict, doc="Headers sent with each request.")
    sending_queue: QueueConfig = option(factory=QueueConfig, doc="The queue in front of the exporter.")
    retry_on_failure: RetryConfig = option(factory=RetryConfig, doc="Repetition of failed requests.")
    auth: Any = unserved("a fixed token can be set in headers")
    middlewares: Any = unserved()
    read_buffer_size: int = option(0, doc="Accepted for compatibility: responses are a few bytes.", minimum=0)
    write_buffer_size: int = option(
        0, doc="Accepted for compatibility: requests are written in large pieces.", minimum=0
    )

    def client_problems(self, compression: str) -> Iterator[tuple[str, str]]:
        """Yield (field, message) for each rule that these keys break, with compression."""
        yield from header_problems(self.headers)
        yield from self.compression_params.level_problems(compression)
