"""The command line in full, as click sees it."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from collector import __version__
from collector.cli import Options, hold_back_hangup
from collector.cli.output import give_up_output

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _common(command: CommandT) -> CommandT:
    for decorate in (
        click.option(
            "--feature-gates",
            "feature_gates",
            multiple=True,
            metavar="GATES",
            help="As of the Collector; without effect here.",
        ),
        click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set one value: a.b=value."),
        click.option(
            "--config",
            "configs",
            multiple=True,
            type=click.Path(),  # for those who have the shell complete it
            metavar="LOCATION",
            help="A file, - for standard input, env:NAME, yaml:TEXT, or a URL. May be given several times; later ones"
            " win.",
        ),
    ):
        command = decorate(command)
    return command


def _say_version() -> None:
    click.echo(f"spansieve version {__version__}")


def _show_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        _say_version()
        context.exit()


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@_common
@click.option(
    "--version",
    "-v",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version.",
)
@click.pass_context
def spansieve(context: click.Context, /, **options: tuple[str, ...]) -> int | None:
    """An OpenTelemetry Collector as a sidecar.

    Without a command it runs until SIGTERM; SIGHUP reads the configuration again.

    \b
        spansieve --config config.yaml
    """  # noqa: D301 click wants the control character
    context.obj = Options(**options)
    if context.invoked_subcommand is not None:
        return None
    hold_back_hangup()
    from collector.cli.run import run

    return run(context.obj)


@spansieve.command()
@_common
@click.option("--strict", is_flag=True, help="Let a warning fail too.")
@click.option(
    "--fix", "path", metavar="FILE", help="Write FILE anew as it should be today, and show what changes."
)
@click.option("--dry-run", "is_dry", is_flag=True, help="With --fix: only show what would change.")
@click.pass_obj
def validate(
    before: Options, /, strict: bool, path: str | None, is_dry: bool, **options: tuple[str, ...]
) -> int:
    """Check a configuration without running it.

    With --fix names and keys of older Collectors are replaced by those of today; everything else in the file, comments
    too, stays as it is. It is written only if it is then no worse than before.
    """
    if path is not None:
        from collector.cli.fix import fix

        return fix(before + Options(**options), path, is_dry=is_dry)
    from collector.cli.validate import validate as run

    return run(before + Options(**options), strict=strict)


@spansieve.command()
@_common
def components(**_options: tuple[str, ...]) -> int:
    """List the components of this installation."""
    from collector.cli.components import components as run
    from collector.registry import Registry

    return run(Registry())


@spansieve.command()
@click.argument("id", required=False)
def featuregate(id: str | None) -> int:
    """List the feature gates that a command line may name."""
    from collector.cli.featuregate import featuregate as run

    return run(id)


@spansieve.command()
@click.argument("component", required=False)
@click.option("--output", metavar="DIR", help="Write all pages into this folder, or those of COMPONENT.")
def docs(component: str | None, output: str | None) -> int:
    """Print the reference page of a component.

    COMPONENT is a type such as batch, or processors/batch where several kinds have it, or service. Without it the list
    of all is printed.
    """
    from collector.cli.docs import docs as run
    from collector.registry import Registry

    return run(component, output, Registry())


@spansieve.command()
@click.option("--partial", "is_partial", is_flag=True, help="Of a file that is merged with others.")
def schema(is_partial: bool) -> int:
    """Print the JSON Schema of a configuration.

    Editors complete and check a configuration by it.
    """
    from collector.cli.schema import schema as run
    from collector.registry import Registry

    return run(Registry(), is_partial=is_partial)


@spansieve.command("print-config")
@_common
@click.option("--format", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
@click.option("--mode", type=click.Choice(["redacted", "unredacted"]), default="redacted", show_default=True)
@click.option("--validate", type=bool, default=True, show_default=True, help="Refuse what could not run.")
@click.pass_obj
def print_config(
    before: Options, /, format: str, mode: str, validate: bool, **options: tuple[str, ...]
) -> int:
    """Print the configuration in effect.

    Sources are merged, references replaced, defaults filled in; secrets are not shown.
    """
    from collector.cli.print_config import print_config as run

    return run(before + Options(**options), format=format, mode=mode, validate=validate)


@spansieve.command(
    short_help="Measure this checkout beside other collectors.",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench(arguments: Sequence[str]) -> int:
    """Measure this checkout beside other collectors; `bench --help` says more."""
    from collector.cli.bench import bench as run

    return run(arguments)


@spansieve.command()
def version() -> None:
    """Show the version."""
    _say_version()


@spansieve.command()
@click.argument("command", required=False)
def help(command: str | None) -> int:
    """Show this help, or that of COMMAND."""
    return invoke([command, "--help"] if command else ["--help"])


@spansieve.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands and options.

    \b
        bash, zsh   eval "$(spansieve completion bash)" in ~/.bashrc or ~/.zshrc
        fish        spansieve completion fish > ~/.config/fish/completions/spansieve.fish
    """  # noqa: D301 click wants the control character
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None  # noqa: S101 click has the three
    click.echo(complete(spansieve, {}, "spansieve", "_SPANSIEVE_COMPLETE").source())


# The Collector's older name.
_hidden = copy.copy(print_config)
_hidden.hidden = True
spansieve.add_command(_hidden, "print-initial-config")


def invoke(arguments: Sequence[str]) -> int:
    """Return the exit code of a command line; 1 for every error, as the Collector's."""
    try:
        code = int(spansieve.main(list(arguments), prog_name="spansieve", standalone_mode=False) or 0)
        sys.stdout.flush()
        return code
    except click.ClickException as error:
        error.show()
        if isinstance(error, click.UsageError) and (name := _bare_configuration(arguments)):
            click.echo(f"A configuration is named by an option: --config {name}", err=True)
    except click.Abort:
        click.echo("Error: aborted", err=True)
    except OSError as error:
        if error.filename is not None:
            raise
        give_up_output(error)
    return 1


def _bare_configuration(arguments: Sequence[str]) -> str | None:
    """Return the first argument that is the name of a configuration and stands behind no option."""
    for before, argument in zip(("", *arguments), arguments, strict=False):
        if (
            argument.endswith((".yaml", ".yml"))
            and not argument.startswith("-")
            and not before.startswith("-")
        ):
            return argument
    return None
