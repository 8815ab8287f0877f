"""Configurations inside something else: manifests are read, of others it is said what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.config.document import Document
from collector.config.load import load
from collector.errors import ConfigError
from collector.ids import ComponentID
from collector.registry import Registry

CONFIG = """\
# what a node sends
receivers: {otlp: {protocols: {grpc: }}}
processors:
  batch: {timeout: TIMEOUT}
exporters: {nop: }
service: {pipelines: {traces: {receivers: [otlp], processors: [batch], exporters: [nop]}}}
"""


def indented(text: str, n_spaces: int) -> str:
    """Return text deeper by n_spaces."""
    return "".join(f"{' ' * n_spaces}{line}\n" for line in text.splitlines())


def config_map(config: str = CONFIG, name: str = "agent") -> str:
    """Return a manifest with a configuration in a block of text."""
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  notes: |\n    not: one\n"
        f"  relay.yaml: |\n{indented(config, 4)}"
    )


DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: agent}\nspec: {replicas: 1}\n"
OPERATOR = (
    "apiVersion: opentelemetry.io/v1beta1\nkind: OpenTelemetryCollector\nmetadata: {name: agent}\n"
    "spec:\n  mode: sidecar\n  config:\n" + indented(CONFIG, 4)
)
OLDER_OPERATOR = OPERATOR.replace("v1beta1", "v1alpha1").replace("config:", "config: |")
MANIFESTS = {
    "config map": config_map(),
    "of several documents": f"---\n{DEPLOYMENT}---\n{config_map()}---\n{DEPLOYMENT}",
    "list": "apiVersion: v1\nkind: List\nitems:\n- " + indented(config_map(), 2)[2:],
    "operator": OPERATOR,
    "older operator": OLDER_OPERATOR,
    "secret": config_map().replace("ConfigMap", "Secret").replace("\ndata:", "\nstringData:"),
}


def loaded(folder: Path, text: str) -> Document:
    """Load text from a file."""
    path = folder / "file.yaml"
    path.write_text(text)
    return load([str(path)], [], Registry(), {})


def problems(folder: Path, text: str) -> list[str]:
    """Return what is wrong with text, without the folder."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text)
    return [str(found).replace(f"{folder}/", "") for found in caught.value.problems]


def line_of(word: str, text: str) -> int:
    """Return the first line with word in it."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if word in line)


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_manifest_is_read(tmp_path: Path, text: str) -> None:
    """By itself, with a note of where the configuration was found, and no warning."""
    document = loaded(tmp_path, text.replace("TIMEOUT", "7s"))
    assert 7.0 == document.processors[ComponentID("batch")].config.timeout
    assert () == document.warnings
    (note,) = document.notes
    assert "agent" in note
    assert any(place in note for place in ("data::relay.yaml", "stringData::relay.yaml", "spec::config"))


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_problem_names_the_line_of_the_manifest(tmp_path: Path, text: str) -> None:
    """Whether the configuration is a map there or a text."""
    expected = "processors::batch::timeout: expected a duration such as '200ms', got 'TIMEOUT'"
    assert [f"{expected} (file.yaml:{line_of('TIMEOUT', text)})"] == problems(tmp_path, text)


def test_fault_of_the_inner_text_is_told_with_its_line(tmp_path: Path) -> None:
    """YAML within YAML."""
    text = config_map(CONFIG.replace("processors:\n", "processors:\n - batch\n"))
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(f"file.yaml:{line_of('TIMEOUT', text)}: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            DEPLOYMENT,
            "file.yaml:1: a Kubernetes manifest (Deployment) without a configuration: one lies in a ",
        ),
        (config_map("a: b"), "file.yaml:1: a Kubernetes manifest (ConfigMap) without a configuration"),
        (
            config_map(name="one") + "---\n" + config_map(name="two"),
            "file.yaml:1: holds several configurations: write the one to run into a file of its own: "
            "data::relay.yaml of the Kubernetes ConfigMap one; data::relay.yaml of the Kubernetes ConfigMap two",
        ),
        (
            "mode: daemonset\nimage: {tag: x}\nconfig:\n" + indented(CONFIG, 2),
            "file.yaml:3: not a configuration itself: one lies under config; write that into a file of its own; "
            "these look like values of a Helm chart",
        ),
        (
            "services: {a: {image: b}}\nconfigs:\n  otel:\n    content: |\n" + indented(CONFIG, 6),
            "file.yaml:4: not a configuration itself: one lies under configs::otel::content",
        ),
        (
            "receivers:\n{{- if .Values.otlp }}\n  otlp:\n{{- end }}\n",
            "file.yaml:2: a template, of Helm for example, is no configuration before it is rendered (",
        ),
        ("{{ toYaml .Values.config }}", "file.yaml:1: a template, of Helm"),
        (config_map(CONFIG + "{{ include x }}\n - a"), "file.yaml:15: a template, of Helm"),
        (
            "# for the backend\nexport TOKEN=abc\n\nHOST='a b'\n",
            "file.yaml:1: these are environment variables",
        ),
        ("just words", "file.yaml:1: expected a map of sections such as 'receivers', got 'just words'"),
        ("a: {b: c}", "has invalid keys: a; valid keys: receivers"),
    ],
)
def test_what_is_no_configuration_is_said_to_be_what_it_is(tmp_path: Path, text: str, expected: str) -> None:
    """And where the configuration lies, or how to get one."""
    found = problems(tmp_path, text)
    assert any(problem.startswith(expected) for problem in found), found


def test_braces_in_a_configuration_are_no_template(tmp_path: Path) -> None:
    """What can be read is read."""
    more = "extensions: {health_check: {response_body: {healthy: '{{ok}}'}}}\n"
    assert ComponentID("health_check") in loaded(tmp_path, CONFIG.replace("TIMEOUT", "1s") + more).extensions


def test_unset_variables_and_empty_files_are_told_with_their_place(tmp_path: Path) -> None:
    """The file, the line and the key."""
    path, empty, over = (tmp_path / name for name in ("file.yaml", "empty", "over.yaml"))
    empty.write_text("\n")
    over.write_text("# nothing\n")
    text = CONFIG.replace("TIMEOUT", f"'${{file:{empty}}}'")
    path.write_text(text + "extensions:\n  health_check: ${env:NONE}\n")
    assert (
        f"processors::batch::timeout: the file '{empty}' is empty ({path}:4, ${{file:{empty}}})",
        'extensions::health_check: configuration references unset environment variable "NONE"'
        f" ({path}:8, ${{env:NONE}})",
        f"{over}: empty configuration file: it changes nothing",
    ) == load([str(path), str(over)], [], Registry(), {}).warnings[:3]


def test_empty_files_alone_are_an_error(tmp_path: Path) -> None:
    """Each by its name."""
    assert ["file.yaml: empty configuration file"] == problems(tmp_path, "# nothing\n")
