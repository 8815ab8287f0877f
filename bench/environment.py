"""What a run runs on, as far as its figures depend on it."""

from __future__ import annotations

import ctypes
import platform
import re
import subprocess
from pathlib import Path

from bench.processes import MissingTool, find_tool


def describe() -> dict[str, str]:
    """Return the machine and the tools."""
    cpuinfo = Path("/proc/cpuinfo")
    models = (
        re.findall(r"^model name\s*:\s*(.*)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.exists() else []
    )
    meminfo = Path("/proc/meminfo")
    memory = re.search(r"MemTotal:\s*(\d+)", meminfo.read_text()) if meminfo.exists() else None
    return {
        "cpu": models[0] if models else platform.processor() or platform.machine(),
        "cores": str(len(models) or 1),
        "memory": f"{int(memory[1]) / 2**20:.0f} GiB" if memory else "unknown",
        "kernel": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "arch": platform.machine(),
        "python": platform.python_version(),
        "compiler": _compiler(),
        "libc": " ".join(platform.libc_ver()),
        "zstd": _zstd(),
    }


def _compiler() -> str:
    try:
        said = subprocess.run(
            [find_tool("cc", "gcc"), "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (MissingTool, subprocess.CalledProcessError):
        return "none"
    return said.splitlines()[0]


def _zstd() -> str:
    """Return the version of the library that spansieve is linked with."""
    try:
        version = ctypes.CDLL("libzstd.so.1").ZSTD_versionString
    except OSError:
        return "unknown"
    version.restype = ctypes.c_char_p
    return str(version().decode())
