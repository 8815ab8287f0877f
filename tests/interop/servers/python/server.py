"""A server on grpcio."""

import sys
import threading
from concurrent import futures

import grpc

ANSWER = bytes.fromhex(sys.argv[1])
LOCK = threading.Lock()


class Handler(grpc.GenericRpcHandler):
    """Takes any unary call, as bytes."""

    def service(self, _details):
        """Return what handles a call."""
        return grpc.unary_unary_rpc_method_handler(handle)


def handle(message, _context):
    """Take one message."""
    with LOCK:
        print(message.hex(), flush=True)
    return ANSWER


server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers([Handler()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
