"""OTLP/gRPC on grpcio: generic handlers that move bytes, so that no message class is needed.

grpcio decodes gzip, keeps the size limit and answers unknown methods and encodings by itself. It opens its
own socket, because its Python side cannot take over a listening one: beside a reserved one, so that no other
process gets the address and the server of a new configuration can bind it while the old one still serves.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc  # type: ignore[import-untyped]

from collector.component import Listeners
from collector.config.values import format_address
from collector.ids import Signal
from collector.lean import TYPE_CHECKING, Any, NoReturn
from collector.native.library import lib
from collector.native.pipeline import Verdict
from collector.transport import Acceptor, Listener
from collector.transport.status import OK, response_protobuf, status_protobuf

if TYPE_CHECKING:
    from collector.transport.portable import Scratch

_METHODS = {
    f"/opentelemetry.proto.collector.{package}.v1.{service}/Export": signal
    for package, service, signal in (
        ("trace", "TraceService", Signal.TRACES),
        ("metrics", "MetricsService", Signal.METRICS),
        ("logs", "LogsService", Signal.LOGS),
    )
}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


class _Services(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Routes a method name to the export of its signal."""

    def __init__(self, acceptor: Acceptor, scratch: Scratch) -> None:
        self._acceptor = acceptor
        self._scratch = scratch
        self._handlers = {method: self._new_handler(signal) for method, signal in _METHODS.items()}

    def service(self, handler_call_details: Any) -> Any:
        """Return the handler of a call; None makes grpcio answer UNIMPLEMENTED."""
        method = handler_call_details.method
        signal = _METHODS.get(method)
        return self._handlers[method] if signal and self._acceptor.has_signal(signal) else None

    def _new_handler(self, signal: Signal) -> Any:
        def export(body: bytes, context: Any) -> bytes:
            verdict = self._acceptor.accept(
                self._scratch.worker, signal, lib.SS_TRANSPORT_GRPC, lib.SS_PAYLOAD_PROTOBUF, body
            )
            if verdict.code != OK:
                _abort(context, verdict)
            return response_protobuf(verdict)

        return grpc.unary_unary_rpc_method_handler(export)


def _abort(context: Any, verdict: Verdict) -> NoReturn:
    if verdict.retry_delay_ms is not None:
        context.set_trailing_metadata((("grpc-status-details-bin", status_protobuf(verdict)),))
    context.abort(_CODES[verdict.code], verdict.message)
    raise AssertionError


class GrpcServer:
    """One grpcio server for one listener."""

    def __init__(
        self, listener: Listener, *, sockets: Listeners, acceptor: Acceptor, scratch: Scratch, threads: int
    ) -> None:
        self._listener = listener
        self._sockets = sockets
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="otlp-grpc")
        self._server = grpc.server(
            self._executor,
            handlers=[_Services(acceptor, scratch)],
            options=_options(listener),
        )

    def start(self) -> str:
        """Bind and serve; return the bound address."""
        network, endpoint = self._listener.network, self._listener.endpoint
        is_path = network == "unix"
        address = endpoint if is_path else format_address(self._sockets.reserve(network, endpoint))
        try:
            self._server.add_insecure_port(f"unix:{address}" if is_path else address)
        except RuntimeError as error:
            raise OSError(f"listen {network} {endpoint}: {error}") from error
        self._server.start()
        return address

    def shutdown(self, timeout_s: float) -> None:
        """Refuse new calls, let those in flight finish within timeout_s, close."""
        self._server.stop(timeout_s).wait()
        self._executor.shutdown(wait=False, cancel_futures=True)


def _options(listener: Listener) -> list[tuple[str, int]]:
    options = [
        ("grpc.so_reuseport", 1),  # a second collector fails all the same: at the reservation
        ("grpc.max_receive_message_length", listener.max_message_bytes),
        ("grpc.max_concurrent_streams", listener.max_concurrent_streams),
        ("grpc.http2.lookahead_bytes", listener.initial_window_bytes),
    ]
    if listener.idle_timeout_s:
        options.append(("grpc.max_connection_idle_ms", int(listener.idle_timeout_s * 1000)))
    return options
