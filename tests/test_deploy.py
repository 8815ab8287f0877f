"""What deploy/ shows to operators fits the product, and its parts each other."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import collector
from collector.config.document import Document
from collector.config.load import load
from collector.config.values import parse_duration
from collector.ids import ComponentID
from collector.registry import Registry

DEPLOY = Path(__file__).parents[1] / "deploy"
CONFIG_PATH = "/etc/spansieve/config.yaml"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
MIB = {"Mi": 1, "Gi": 1024, "M": 1}
MODULE = "collector.native._spansieve"
LIMITER = ComponentID("memory_limiter", "")


def configuration(name: str) -> Document:
    """Return what deploy/config has under this name."""
    return load([str(DEPLOY / "config" / f"{name}.yaml")], (), Registry())


def mebibytes(text: str) -> int:
    """Return a size as Kubernetes and systemd write it."""
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()  # type: ignore[union-attr]
    return int(number) * MIB[unit]


def ports_of(document: Document) -> set[int]:
    """Return the ports that other hosts are to reach."""
    [receiver] = document.receivers.values()
    [health] = document.extensions.values()
    protocols = receiver.config.protocols
    endpoints = [protocols.grpc.endpoint, protocols.http.endpoint, health.config.endpoint]
    open_ports = {
        int(port) for host, port in (text.rsplit(":", 1) for text in endpoints) if host == "0.0.0.0"
    }
    prometheus = document.service.telemetry.metrics.prometheus
    assert prometheus is not None
    return open_ports | {prometheus.port}


def deployment(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the pod of a manifest's Deployment, and the container in it that is ours."""
    [found] = [part for part in yaml.safe_load_all(path.read_text()) if part["kind"] == "Deployment"]
    pod = found["spec"]["template"]["spec"]
    [container] = [
        container
        for container in (*pod.get("initContainers", ()), *pod["containers"])
        if container["name"] == "spansieve"
    ]
    return pod, container


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
class TestKubernetes:
    """Each manifest runs the configuration of its name."""

    def test_configuration_lies_where_the_image_looks(self, path: Path) -> None:
        """The command that the manifest tells makes the ConfigMap that it mounts."""
        pod, container = deployment(path)
        [volume], [mount] = pod["volumes"], container["volumeMounts"]
        name = volume["configMap"]["name"]
        source = f"deploy/config/{path.name}"
        command = f"kubectl create configmap {name} --from-file={Path(CONFIG_PATH).name}={source}"
        assert command in path.read_text()
        assert (volume["name"], str(Path(CONFIG_PATH).parent)) == (mount["name"], mount["mountPath"])
        assert f"spansieve:{collector.__version__}" == container["image"]

    def test_ports_are_those_of_the_configuration(self, path: Path) -> None:
        """What is open to other hosts is listed, probed and served."""
        _, container = deployment(path)
        listed = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports_of(configuration(path.stem)) == set(listed.values())
        probes = [probe for key, probe in container.items() if key.endswith("Probe")]
        assert probes
        assert all(probe["httpGet"] == {"path": "/", "port": "health"} for probe in probes)
        services = [part for part in yaml.safe_load_all(path.read_text()) if part["kind"] == "Service"]
        for port in (port for service in services for port in service["spec"]["ports"]):
            assert listed[port["name"]] == port["port"]

    def test_variables_are_read_by_the_configuration(self, path: Path) -> None:
        """No variable is set in vain."""
        _, container = deployment(path)
        text = (DEPLOY / "config" / path.name).read_text()
        assert [] == [entry["name"] for entry in container["env"] if f"${{env:{entry['name']}:-" not in text]

    def test_limits_leave_room(self, path: Path) -> None:
        """The limiter refuses before the kernel kills, and a drain is over before the kubelet kills."""
        pod, container = deployment(path)
        document = configuration(path.stem)
        assert pod["terminationGracePeriodSeconds"] > document.service.shutdown_timeout
        limit_mib = document.processors[LIMITER].config.limit_mib
        assert mebibytes(container["resources"]["limits"]["memory"]) >= limit_mib + 64


class TestSystemd:
    """The unit runs the sidecar's configuration."""

    UNIT = DEPLOY / "systemd" / "spansieve.service"

    def value(self, key: str) -> str:
        """Return the value of a key of the unit."""
        [value] = re.findall(rf"^{key}=(.*)$", self.UNIT.read_text(), re.MULTILINE)
        return str(value)

    def test_service_says_when_it_is_ready(self) -> None:
        """So that nothing is sent to it before."""
        assert "notify" == self.value("Type")

    def test_limits_leave_room(self) -> None:
        """As in Kubernetes."""
        document = configuration("sidecar")
        assert parse_duration(self.value("TimeoutStopSec") + "s") > document.service.shutdown_timeout
        assert mebibytes(self.value("MemoryMax")) >= document.processors[LIMITER].config.limit_mib + 64

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
    def test_unit_is_one(self, tmp_path: Path) -> None:
        """systemd finds nothing to complain of, but for the program, which is not installed here."""
        unit = tmp_path / self.UNIT.name
        unit.write_text(self.UNIT.read_text().replace("/opt/spansieve/bin/spansieve", "/bin/true"))
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
        )
        assert (0, "") == (done.returncode, done.stderr)


class TestImage:
    """The Dockerfile."""

    TEXT = (DEPLOY / "Dockerfile").read_text()

    def test_configuration_lies_where_it_looks(self) -> None:
        """Copied, and named by the command."""
        assert f"COPY deploy/config/sidecar.yaml {CONFIG_PATH}\n" in self.TEXT
        assert f'CMD ["--config", "{CONFIG_PATH}"]\n' in self.TEXT

    def test_ports_are_those_of_the_configurations(self) -> None:
        """EXPOSE tells of all that a gateway has open."""
        [ports] = re.findall(r"^EXPOSE (.*)$", self.TEXT, re.MULTILINE)
        assert ports_of(configuration("gateway")) == {int(port) for port in ports.split()}

    @pytest.mark.skipif(
        shutil.which("dpkg-query") is None, reason="the image is Debian's, as are its packages"
    )
    def test_packages_bring_every_library(self) -> None:
        """What the build links is in a package of the second stage."""
        module = find_spec(MODULE)
        assert module is not None and module.origin is not None
        done = subprocess.run(["ldd", module.origin], capture_output=True, text=True, check=True)
        libraries = re.findall(r"=> (/\S+)", done.stdout)
        stage = {"libc6", *re.findall(r"[a-z0-9.-]+", self.TEXT.rpartition("FROM ")[2])}
        assert [] == [library for library in libraries if not stage & packages_of(library)]


WHEELS = sorted((DEPLOY.parent / "dist").glob("*.whl"))
USES_LIBRARIES = """\
from collector.native import codec
each = codec.Codec()
for encoding in codec.Encoding:
    assert b"text" == each.decompress(encoding, each.compress(encoding, b"text"), 100), encoding
print(open("/proc/self/maps").read())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of its commands; packages that it depends on are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--python",
            python,
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            *WHEELS,
        ],
        check=True,
    )
    [site] = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin"


@pytest.mark.skipif(not WHEELS, reason="needs a wheel: make wheel, which runs this")
@pytest.mark.timeout(600)
class TestWheel:
    """What `make wheel` made, installed in an environment that knows nothing of the checkout."""

    def test_it_runs(self, installed: Path, tmp_path: Path) -> None:
        """It takes a request and writes it, under the command that it installs."""
        config = tmp_path / "config.yaml"
        config.write_text(
            "receivers: {otlp: {protocols: {http: {endpoint: 'localhost:0'}}}}\n"
            f"exporters: {{file: {{path: {tmp_path}/out}}}}\n"
            "service:\n"
            "  telemetry: {metrics: {level: none}}\n"
            "  pipelines: {traces: {receivers: [otlp], exporters: [file]}}\n"
        )
        with subprocess.Popen(
            [installed / "spansieve", f"--config={config}"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            endpoint = ""
            for line in process.stderr:
                if "Starting HTTP server" in line:
                    endpoint = json.loads(line.split("\t")[3])["endpoint"]
                if "Everything is ready" in line:
                    break
            span = {"traceId": "01" * 16, "spanId": "02" * 8, "name": "from the wheel"}
            request = urllib.request.Request(
                f"http://{endpoint}/v1/traces",
                json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request) as answer:
                assert 200 == answer.status
            process.terminate()
            process.stderr.read()
            assert 0 == process.wait(60)
        assert "from the wheel" in (tmp_path / "out").read_text()

    def test_it_brings_its_libraries(self, installed: Path, tmp_path: Path) -> None:
        """Every encoding works with what is in the wheel, that of libraries which are loaded when needed too."""
        done = subprocess.run(
            [installed / "python", "-c", USES_LIBRARIES],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        loaded = {Path(path) for path in re.findall(r"/\S+\.so\S*", done.stdout)}
        for name in ("deflate", "lz4", "nghttp2", "pcre2-8", "snappy", "yaml-0", "zstd"):
            [path] = [path for path in loaded if path.name.startswith(f"lib{name}")]
            assert installed.parent in path.parents


def packages_of(path: str) -> set[str]:
    """Return the Debian packages that have a library of this name."""
    done = subprocess.run(
        ["dpkg-query", "--search", f"*/{Path(path).name}"], capture_output=True, text=True, check=True
    )
    return {line.partition(":")[0] for line in done.stdout.splitlines()}
