"""The command line, from arguments to exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import collector.cli
from collector.cli import Options, read_options
from collector.cli.commands import invoke, spansieve
from collector.cli.print_config import to_yaml
from collector.config import syntax
from collector.config.document import Document
from collector.config.expand import Expander, escape, plain
from collector.config.sources import read
from collector.registry import Registry

FAKES = Path(__file__).parents[1] / "config"
GOOD = """
receivers: {otlp: {protocols: {grpc: {}}}}
exporters: {otlp_http: {endpoint: "http://${env:HOST:-b}", headers: {token: s3cret}}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}}
"""
UNUSED = "yaml:processors: {batch: {}}"


@pytest.fixture(autouse=True)
def _fake_components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setattr(Registry.__init__, "__defaults__", ("tests.unit.config.spansieve_fakes",))


@pytest.fixture
def good(tmp_path: Path) -> str:
    """Path of a configuration without problems."""
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    return str(path)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Document]]:
    """Stand in for the service: load once, keep the document, end with code 7."""
    held = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    documents: list[Document] = []

    def run(load: Callable[[], Document], *, ends_process: bool) -> int:
        assert ends_process
        documents.append(load())
        return 7

    module = types.ModuleType("collector.service.run")
    module.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "collector.service.run", module)
    yield documents
    signal.pthread_sigmask(signal.SIG_SETMASK, held)


def main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Return the exit code of spansieve with arguments."""
    monkeypatch.setattr(sys, "argv", ["spansieve", *arguments])
    with pytest.raises(SystemExit) as caught:
        collector.cli.main()
    return int(caught.value.code or 0)


class TestOptions:
    """The plain run is read without click, and must be read alike."""

    def test_options_are_read_in_both_forms(self) -> None:
        """`--config X` and `--config=X`, several times, in order."""
        assert read_options(
            ["--config", "a", "--set=x.y=1", "--config=b", "--feature-gates", "-c"]
        ) == Options(("a", "b"), ("x.y=1",), ("-c",))

    @pytest.mark.parametrize(
        "arguments",
        [[], ["validate"], ["--config"], ["--config", "a", "--help"], ["--set", "a=1"], ["--conf=a"]],
    )
    def test_everything_else_is_left_to_click(self, arguments: list[str]) -> None:
        """Other commands, help and mistakes."""
        assert read_options(arguments) is None

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["--config", "--set", "--feature-gates"]), st.text(max_size=5), st.booleans()
            ),
            max_size=4,
        )
    )
    def test_click_reads_the_same(self, given_options: list[tuple[str, str, bool]]) -> None:
        """Whatever is read without click, click reads as the same options."""
        arguments = ["--config", "first"]
        for flag, value, joined in given_options:
            arguments += [f"{flag}={value}"] if joined else [flag, value]
        seen: list[Options] = []
        patch = pytest.MonkeyPatch()
        patch.setattr("collector.cli.run.run", lambda options: seen.append(options) or 0)
        with patch.context():
            code = invoke(arguments)
        patch.undo()
        if code == 0:
            assert seen == [read_options(arguments)]


class TestRun:
    """No command: run."""

    def test_interrupt_before_it_runs_is_no_fault(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Who presses ctrl-C while modules are loaded or files are read sees no traceback."""

        def interrupt(_options: Options) -> int:
            raise KeyboardInterrupt

        monkeypatch.setattr("collector.cli.run.run", interrupt)
        assert 130 == main(monkeypatch, "--config", "a")
        assert ("", "") == capsys.readouterr()

    def test_service_gets_the_document_and_gives_the_exit_code(
        self, monkeypatch: pytest.MonkeyPatch, good: str, service: list[Document]
    ) -> None:
        """The configuration is loaded by the service, which says how it ended."""
        assert main(monkeypatch, "--config", good, "--set", "exporters.otlp_http.queue_size=5") == 7
        ((entry,),) = [document.exporters.values() for document in service]
        assert entry.config.queue_size == 5

    def test_faulty_configuration_ends_with_all_problems(
        self,
        monkeypatch: pytest.MonkeyPatch,
        good: str,
        service: list[Document],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """Exit code 1, one line a problem on stderr, nothing on stdout."""
        override = "yaml:exporters: {otlp_http: {queue_size: x, nope: 1}}"
        assert main(monkeypatch, f"--config={good}", "--config", override) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert output.err.splitlines() == [
            "Error: invalid configuration: exporters::otlp_http: has invalid keys: nope; valid keys: endpoint, "
            + "compression, headers, queue_size (yaml:1)",
            "Error: invalid configuration: exporters::otlp_http::queue_size: expected a whole number, got 'x' (yaml:1)",
        ]
        assert service == []

    @pytest.mark.parametrize("encoding", ["json", "JSON", "console", "[]", "x"])
    def test_fault_is_told_as_logs_are(
        self,
        monkeypatch: pytest.MonkeyPatch,
        good: str,
        service: list[Document],
        capsys: pytest.CaptureFixture[str],
        encoding: str,
    ) -> None:
        """What collects JSON gets JSON, as far as the faulty configuration tells."""
        layer = f"yaml:service: {{telemetry: {{logs: {{encoding: {encoding}}}}}}}"
        assert 1 == main(monkeypatch, "--config", good, "--config", layer, "--set", "exporters.nope=1")
        said = capsys.readouterr().err
        if encoding.lower() == "json":
            line = json.loads(said)
            assert ("fatal", "invalid configuration") == (line["level"], line["msg"])
            assert 'unknown type: "nope"' in line["problems"][0]
        else:
            assert said.startswith("Error: invalid configuration: ")

    def test_feature_gates_are_accepted_with_a_note(
        self,
        monkeypatch: pytest.MonkeyPatch,
        good: str,
        service: list[Document],
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A command line made for the Collector works; what would be different there is told."""
        gates = "--feature-gates=+service.profilesSupport,-service.AllowNoPipelines,"
        assert main(monkeypatch, "--config", good, gates) == 7
        assert (
            capsys.readouterr().err
            == 'Warning: feature gate "service.profilesSupport" has no effect in spansieve\n'
        )

    @pytest.mark.parametrize("command", [[], ["validate"], ["print-config"]])
    @pytest.mark.parametrize(
        ("gate", "problem"),
        [
            ("nope", 'no such feature gate "nope". valid gates: [confmap.'),
            ("service.AlowNoPipelines", "did you mean 'service.AllowNoPipelines'?"),
            (
                "-pkg.confighttp.PrioritizeNewKeepalive",
                'feature gate "pkg.confighttp.PrioritizeNewKeepalive" is stable, can not be disabled',
            ),
        ],
    )
    def test_unknown_feature_gates_are_refused(
        self,
        monkeypatch: pytest.MonkeyPatch,
        good: str,
        service: list[Document],
        capsys: pytest.CaptureFixture[str],
        command: list[str],
        gate: str,
        problem: str,
    ) -> None:
        """By every command, with what is valid."""
        assert main(monkeypatch, *command, "--config", good, f"--feature-gates={gate}") == 1
        said = capsys.readouterr().err
        assert said.startswith(f'Error: invalid argument "{gate}" for "--feature-gates" flag: ')
        assert problem in said
        assert service == []

    @pytest.mark.parametrize("arguments", [[], ["--set", "a=1"], ["validate"], ["print-config"]])
    def test_no_configuration_is_an_error(
        self,
        monkeypatch: pytest.MonkeyPatch,
        service: list[Document],
        capsys: pytest.CaptureFixture[str],
        arguments: list[str],
    ) -> None:
        """Without --config there is nothing to do."""
        assert main(monkeypatch, *arguments) == 1
        assert "at least one config flag must be provided" in capsys.readouterr().err


class TestValidate:
    """`spansieve validate`."""

    @pytest.mark.parametrize("order", [("validate", "--config"), ("--config", "validate")])
    def test_good_configuration_is_silent(
        self, good: str, capsys: pytest.CaptureFixture[str], order: tuple[str, str]
    ) -> None:
        """Exit code 0 and no word, options before or behind the command."""
        arguments = (
            ["validate", "--config", good] if order[0] == "validate" else ["--config", good, "validate"]
        )
        assert invoke(arguments) == 0
        assert capsys.readouterr() == ("", "")

    def test_terminal_is_told_what_is_valid(
        self, good: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """People see that something was read; nothing is valid where a warning fails."""
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        assert 0 == invoke(["validate", "--config", good])
        assert "valid: 1 pipeline, 2 components\n" == capsys.readouterr().out
        assert 1 == invoke(["validate", "--strict", "--config", good, "--config", UNUSED])
        assert "" == capsys.readouterr().out

    def test_standard_input_is_a_configuration(self) -> None:
        """`-` names it; its places are those of stdin."""
        real = "receivers: {otlp: {protocols: {grpc: }}}\nexporters: {nop: }\n" + (
            "service: {pipelines: {traces: {receivers: [otlp], exporters: [nop]}}}"
        )
        for text, said in ((real, ""), ("nope: 1", "has invalid keys: nope; valid keys: ")):
            done = subprocess.run(
                [sys.executable, "-m", "collector", "validate", "--config=-"],
                input=text,
                capture_output=True,
                text=True,
                check=False,
            )
            assert bool(said) == bool(done.returncode)
            assert said in done.stderr
            assert not said or "(stdin:1)" in done.stderr

    def test_options_on_both_sides_add_up(self, good: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Sources before the command come first."""
        assert (
            invoke(["--config", good, "validate", "--config", "yaml:exporters: {otlp_http: {nope: 1}}"]) == 1
        )
        assert "has invalid keys: nope" in capsys.readouterr().err

    def test_warning_fails_only_when_strict(self, good: str, capsys: pytest.CaptureFixture[str]) -> None:
        """An unused processor is told; --strict makes it a failure."""
        arguments = ["validate", "--config", good, "--config", UNUSED]
        assert invoke(arguments) == 0
        assert invoke([*arguments, "--strict"]) == 1
        (first, second) = capsys.readouterr().err.splitlines()
        assert first == second
        assert first.startswith("Warning: processors::batch: configured but not listed in any pipeline")

    def test_same_faults_as_a_run(
        self, good: str, service: list[Document], capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What validate says, a run says."""
        arguments = ["--config", good, "--set", "service.pipelines.logs.receivers=[x]"]
        assert invoke(["validate", *arguments]) == 1
        validated = capsys.readouterr().err
        assert invoke(arguments) == 1
        assert capsys.readouterr().err == validated != ""


class TestPrintConfig:
    """`spansieve print-config`."""

    @pytest.mark.parametrize("command", ["print-config", "print-initial-config"])
    def test_secrets_are_hidden_unless_asked_for(
        self, good: str, capsys: pytest.CaptureFixture[str], command: str
    ) -> None:
        """Merged and expanded, with defaults; redacted by default."""
        assert invoke([command, "--config", good]) == 0
        printed = yaml.safe_load(capsys.readouterr().out)
        assert printed["exporters"]["otlp_http"] == {
            "endpoint": "http://b",
            "headers": {"token": "[REDACTED]"},
            "compression": "gzip",
            "queue_size": 1000,
        }
        assert invoke([command, "--config", good, "--mode", "unredacted", "--format", "json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["exporters"]["otlp_http"]["headers"] == {"token": "s3cret"}

    def test_what_is_not_shown_is_named(self, good: str, capsys: pytest.CaptureFixture[str]) -> None:
        """On stderr, with what to do; nothing is said where all is shown."""
        arguments = ["print-config", "--config", good, "--set", "exporters.otlp_http.endpoint=http://u:p@b"]
        assert 0 == invoke(arguments)
        output = capsys.readouterr()
        assert "http://***@b" == yaml.safe_load(output.out)["exporters"]["otlp_http"]["endpoint"]
        assert (
            "Note: not shown: exporters::otlp_http::endpoint, exporters::otlp_http::headers::token;"
            " --mode=unredacted prints what can be run\n"
        ) == output.err
        assert 0 == invoke([*arguments, "--mode=unredacted"])
        output = capsys.readouterr()
        assert ("", "http://u:p@b") == (
            output.err,
            yaml.safe_load(output.out)["exporters"]["otlp_http"]["endpoint"],
        )

    @given(
        st.dictionaries(
            st.text().filter(lambda key: "::" not in key),
            st.text()
            | st.text("$${}0123456789eEx_.+-:~ \n\t\r'\"#yesno")
            | st.booleans()
            | st.integers(-(2**63), 2**64 - 1)
            | st.floats(allow_nan=False),
        )
    )
    def test_any_value_comes_back(self, values: dict[str, object]) -> None:
        """Texts that look like numbers, words of other versions of YAML, references: each is read as what it was."""
        expander = Expander(lambda uri: read(uri, "env", {}))
        assert values == plain(expander.expand(syntax.parse(to_yaml(escape(values))).value))

    def test_faulty_configuration_is_printed_only_on_demand(
        self, good: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Problems are told first; --validate=false shows what is there."""
        arguments = ["print-config", "--config", good, "--set", "exporters.nope.password=s3cret"]
        assert invoke(arguments) == 1
        output = capsys.readouterr()
        assert output.out == ""
        assert 'unknown type: "nope"' in output.err
        assert invoke([*arguments, "--validate=false"]) == 0
        assert yaml.safe_load(capsys.readouterr().out)["exporters"]["nope"] == {"password": "[REDACTED]"}

    def test_what_is_printed_loads_again(self, good: str, capsys: pytest.CaptureFixture[str]) -> None:
        """The unredacted output is a configuration."""
        assert invoke(["print-config", "--config", good, "--mode=unredacted"]) == 0
        assert invoke(["validate", "--config", f"yaml:{capsys.readouterr().out}"]) == 0


class TestComponents:
    """`spansieve components`."""

    def test_components_are_listed_with_their_stability(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each once, under its current name, by signal; what cannot be loaded says why."""
        assert invoke(["components"]) == 0
        listing = yaml.safe_load(capsys.readouterr().out)
        assert listing["buildinfo"]["command"] == "spansieve"
        assert listing["exporters"] == [
            {
                "name": "debug",
                "module": "tests.unit.config.spansieve_fakes.exporters.debug",
                "stability": {"traces": "Beta", "metrics": "Beta", "logs": "Beta"},
            },
            {
                "name": "kafka",
                "unavailable": "needs the module 'spansieve_no_such_module', which is not installed",
            },
            {
                "name": "otlp_http",
                "module": "tests.unit.config.spansieve_fakes.exporters.otlp_http",
                "deprecated_names": ["otlphttp"],
                "stability": {"traces": "Beta", "metrics": "Beta", "logs": "Beta"},
            },
        ]
        assert listing["processors"][1]["stability"] == {"traces": "Alpha"}
        assert listing["connectors"][0]["stability"]["traces-to-traces"] == "Beta"
        assert listing["extensions"][0]["stability"] == {"extension": "Beta"}
        assert [provider["scheme"] for provider in listing["providers"]] == [
            "env",
            "file",
            "http",
            "https",
            "yaml",
        ]


def test_help_shows_the_command_as_it_is_typed(capsys: pytest.CaptureFixture[str]) -> None:
    """The command that runs stands on a line of its own, without the mark that keeps it there."""
    assert 0 == invoke(["--help"])
    assert "spansieve --config config.yaml" in map(str.strip, capsys.readouterr().out.splitlines())


def test_version_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    """As of the Collector's other tools."""
    assert (0, 0) == (invoke(["version"]), invoke(["--version"]))
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == f"spansieve version {collector.__version__}"


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Of all, and of each command what its own option shows."""
    for name in (None, *spansieve.commands):
        arguments = [] if name is None else [name]
        assert 0 == invoke(["help", *arguments])
        shown = capsys.readouterr().out
        assert "Usage: spansieve" in shown
        assert 0 == invoke([*arguments, "--help"])
        assert shown == capsys.readouterr().out
    assert 1 == invoke(["help", "nope"])
    assert "No such command 'nope'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script is that of click, under the variable that click looks at."""
    assert 0 == invoke(["completion", shell])
    assert "_SPANSIEVE_COMPLETE" in capsys.readouterr().out
    done = subprocess.run(
        [sys.executable, "-c", "from collector.cli import main; main()"],
        env={
            **os.environ,
            "_SPANSIEVE_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": "spansieve validate --st",
            "COMP_CWORD": "--st" if shell == "fish" else "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "--strict" in done.stdout


class TestFeatureGates:
    """`spansieve featuregate`."""

    def test_all_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A table with a line each."""
        assert invoke(["featuregate"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["ID", "Enabled", "Stage", "Description"]
        assert lines[1].split()[:3] == ["confmap.enableMergeAppendOption", "false", "Alpha"]

    def test_one_is_described(self, capsys: pytest.CaptureFixture[str]) -> None:
        """By its id; an unknown one is an error."""
        assert invoke(["featuregate", "service.AllowNoPipelines"]) == 0
        assert capsys.readouterr().out.startswith(
            "Feature: service.AllowNoPipelines\nEnabled: false\nStage: Alpha\n"
        )
        assert invoke(["featuregate", "nope"]) == 1
        assert capsys.readouterr().err == 'Error: feature "nope" not found\n'


@pytest.mark.parametrize(
    "arguments", [["--nope"], ["nope"], ["validate", "--config"], ["print-config", "--format", "x"]]
)
def test_wrong_usage_ends_with_1(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Every error has exit code 1, as the Collector's."""
    assert invoke(arguments) == 1
    assert "Error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["my.yaml"], ["validate", "my.yaml"], ["--config", "a.yaml", "my.yaml"]]
)
def test_configuration_without_its_option_is_told(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Who names the file as if it were a command learns how it is named."""
    assert 1 == invoke(arguments)
    assert capsys.readouterr().err.endswith("A configuration is named by an option: --config my.yaml\n")


def test_module_tells_its_version() -> None:
    """`python -m collector --version` is a command line like any other."""
    result = subprocess.run(
        [sys.executable, "-m", "collector", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.startswith("spansieve version ")


def test_run_imports_only_what_it_needs(good: str) -> None:
    """Start-up time and resident memory depend on what is not imported."""
    script = (
        "import sys, types\n"
        "service = types.ModuleType('collector.service.run')\n"
        "service.run = lambda load, **_: print(*sys.modules) if load() else 0\n"
        "sys.modules['collector.service.run'] = service\n"
        f"sys.path.insert(0, {str(FAKES)!r})\n"
        "from collector.registry import Registry\n"
        "Registry.__init__.__defaults__ = ('tests.unit.config.spansieve_fakes',)\n"
        f"sys.argv = ['spansieve', '--config', {good!r}]\n"
        "from collector.cli import main\n"
        "main()\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {
        "click",
        "asyncio",
        "difflib",
        "json",
        "socket",
        "http",
        "urllib",
        "importlib.metadata",
        "numpy",
        "subprocess",
    }
    assert heavy & set(result.stdout.split()) == set()
    assert "collector.config.readers" not in result.stdout.split()
