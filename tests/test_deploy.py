"""What deploy/ shows to operators fits the product, and its parts each other."""

from __future__ import annotations

import re
import shutil
import subprocess
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


def packages_of(path: str) -> set[str]:
    """Return the Debian packages that have a library of this name."""
    done = subprocess.run(
        ["dpkg-query", "--search", f"*/{Path(path).name}"], capture_output=True, text=True, check=True
    )
    return {line.partition(":")[0] for line in done.stdout.splitlines()}
