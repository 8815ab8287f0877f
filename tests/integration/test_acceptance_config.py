"""What `validate` says and what the running process does: the same, before any socket opens."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import pytest
import yaml

COMMAND = [sys.executable, "-m", "collector"]


def config(**sections: Any) -> dict[str, Any]:
    """Return a configuration that runs, with sections replaced."""
    return {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:0"}}}},
        "exporters": {"nop": None},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["nop"]}},
        },
        **sections,
    }


def grpc_endpoint(endpoint: str) -> dict[str, Any]:
    """Return the receivers section with this endpoint."""
    return {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": endpoint}}}}}


@pytest.mark.parametrize(
    ("sections", "problems"),
    [
        (grpc_endpoint("localhost"), ["endpoint: expected host:port, got 'localhost' ("]),
        (
            grpc_endpoint("localhost:99999"),
            ["endpoint: expected a port from 0 to 65535 in 'localhost:99999'"],
        ),
        (
            {
                "receivers": {
                    "otlp": {
                        "protocols": {
                            "grpc": {
                                "tls": {"cert_file": "x"},
                                "keepalive": {"server_parameters": {"time": "never"}},
                            }
                        }
                    }
                },
                "exporters": {"otlp": {"endpont": "x"}, "file": {"format": "xml"}},
            },
            [
                "exporters::otlp: has invalid keys: endpont; did you mean 'endpoint'?",
                "exporters::file::format: expected one of 'json', 'proto', got 'xml'",
                "exporters::file::path: ",
                "grpc::keepalive::server_parameters::time: expected a duration such as '200ms', got 'never'",
                "grpc::tls: TLS configuration must include both certificate and key",
                'references exporter "nop" which is not configured',
            ],
        ),
        (
            {
                "exporters": {"otlphttp": {"traces_endpoint": "http://localhost:1"}},
                "service": {"pipelines": {"logs": {"receivers": ["otlp"], "exporters": ["otlphttp"]}}},
            },
            ["exporters::otlphttp::endpoint: either endpoint or logs_endpoint must be set"],
        ),
    ],
)
def test_faulty_configuration_fails_alike_in_both(
    tmp_path: pathlib.Path, sections: dict[str, Any], problems: list[str]
) -> None:
    """What `validate` passes starts; what it refuses does not, with the same words and exit status 1."""
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config(**sections)))
    said = []
    for words in (["validate"], []):
        done = subprocess.run(
            [*COMMAND, *words, "--config", str(file)], check=False, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 1
        assert not done.stdout
        assert "listening" not in done.stderr
        said.append([line for line in done.stderr.splitlines() if line.startswith("Error: ")])
    assert said[0] == said[1]
    for problem in problems:
        assert any(problem in line for line in said[0]), said[0]
