"""The native runtime of one collector, and the scratch space of one thread."""

from __future__ import annotations

from collector.native.library import ffi, lib


class Runtime:
    """What the threads of one collector share: the memory account and grace periods."""

    def __init__(self) -> None:
        self.pointer = ffi.gc(lib.ss_runtime_new(), lib.ss_runtime_free)
        if self.pointer == ffi.NULL:
            raise MemoryError

    @property
    def in_flight_bytes(self) -> int:
        """Bytes held for requests, batches and queues now."""
        return int(lib.ss_runtime_in_flight_bytes(self.pointer))

    def set_rss(self, rss_bytes: int) -> None:
        """Tell the memory limiters the resident set size just sampled, in bytes."""
        lib.ss_runtime_set_rss(self.pointer, rss_bytes)

    def release_memory(self) -> None:
        """Give memory that is free inside the process back to the system."""
        lib.ss_runtime_release_memory(self.pointer)

    def synchronize(self) -> None:
        """Return once no thread still uses what was unpublished before the call."""
        lib.ss_runtime_synchronize(self.pointer)


def raise_descriptor_limit() -> int:
    """Let the process open as many files as the system lets it; return how many, 0 where there is no limit."""
    return int(lib.ss_raise_descriptor_limit())


class Worker:
    """Scratch space for the one thread that uses it."""

    def __init__(self, runtime: Runtime) -> None:
        self.pointer = ffi.gc(lib.ss_worker_new(runtime.pointer), lib.ss_worker_free)
        if self.pointer == ffi.NULL:
            raise MemoryError
