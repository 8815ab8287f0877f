"""`spansieve bench`: measure, compare, show, keep."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from bench import compare, profiling, readme, scenarios, suite, tables, targets
from bench.figures import Profile, Run
from bench.place import Place
from bench.processes import ROOT
from bench.suite import PARTS, Choice, Outcome
from bench.systems import find_all as find_systems

_OUT = ROOT / "build" / "bench" / "last"
_PROFILES = "profiles"
_REPEATS = 2  # of what looks worse
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS), metavar="[PART]...")
@click.option("--quick", is_flag=True, help="Fewer cases, rounds and seconds: some 6 minutes instead of 20.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds A B B A of each case: 5, with --quick 2.")
@click.option("--scenario", "names", multiple=True, help="Only this one; may be given several times.")
@click.option("--system", "systems", multiple=True, help="Only this one, spansieve and the yardstick.")
@click.option(
    "--profile",
    "profiled",
    multiple=True,
    metavar="SCENARIO",
    help="Profile its cases, not only missed targets.",
)
@click.option("--from", "source", type=_FILE, help="Measure nothing: take the run from this file.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=_OUT,
    help="For results.json, summary.md and pictures; build/bench/last by default.",
)
@click.option("--compare", "baseline", type=_FILE, help="Fail when spansieve is worse than in this run.")
@click.option(
    "--keep", metavar="RELEASE", help="Store the run in bench/results and renew what is made of it."
)
def bench(
    parts: Sequence[str],
    *,
    quick: bool,
    rounds: int | None,
    names: Sequence[str],
    systems: Sequence[str],
    profiled: Sequence[str],
    source: Path | None,
    out: Path,
    baseline: Path | None,
    keep: str | None,
) -> int:
    """Measure spansieve beside its peers, on their own work.

    PART is kernel, compression, cost, process, latency or overload; all by default. Exits with 1 when spansieve does
    not do what a scenario says, or has become slower or larger than --compare says it was, or when a part failed.
    """
    known = scenarios.load_all()
    if unknown := [name for name in (*names, *profiled) if name not in known]:
        raise click.UsageError(f"no scenario {unknown[0]!r}; there are {', '.join(known)}")
    here = find_systems()
    if unknown := [name for name in systems if name not in here]:
        raise click.UsageError(f"no system {unknown[0]!r}; there are {', '.join(here)}")
    before = _read(baseline) if baseline else None
    _prepare(out)
    if source:
        outcome = Outcome(_read(source))
        _copy_profiles(outcome.run, source.parent, out)
    else:
        chosen = [known[name] for name in names or known]
        choice = Choice(parts or PARTS, chosen, systems or None, rounds, quick)
        outcome = _measure(choice, known, profiled, out, before)
    _show(outcome, known)
    _write(outcome.run, known, out)
    for failure in outcome.failed:
        click.secho(failure, fg="red", err=True)
    wrong = suite.incorrect(outcome.run.figures)
    for problem in wrong:
        click.secho(f"spansieve is wrong: {problem}", fg="red", err=True)
    worse = before is not None and _compare(before, outcome.run)
    if keep and not wrong and not outcome.failed:
        _keep(outcome.run, known, keep, out)
    return int(bool(wrong or outcome.failed) or worse)


def _read(path: Path) -> Run:
    try:
        return Run.read(path)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _prepare(out: Path) -> None:
    """Make the folder, and fail now rather than after a quarter of an hour when nothing can be written there."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise click.UsageError(f"nothing can be written to {out}: {error.strerror}") from error


def _measure(
    choice: Choice,
    known: dict[str, scenarios.Scenario],
    profiled: Sequence[str],
    out: Path,
    before: Run | None,
) -> Outcome:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started ends with it
    # ignore_cleanup_errors: a server that had to be killed may still be writing its log
    with tempfile.TemporaryDirectory(prefix="spansieve-bench-", ignore_cleanup_errors=True) as name:
        place = suite.prepare(choice, Path(name))
        outcome = _run(choice, place)
        if before:
            outcome = _confirm(before, outcome, choice, place)
        figures = [] if outcome.failed else profiling.wanted(outcome.run, profiled)
        with _progress(len(figures)) as say:
            place = place._replace(say=say)
            profiles: list[Profile] = []
            try:
                profiles += profiling.take(figures, known, place, out / _PROFILES)
            except KeyboardInterrupt:
                outcome = outcome._replace(failed=("interrupted: not all profiles were taken",))
        return outcome._replace(run=dataclasses.replace(outcome.run, profiles=tuple(profiles)))


def _confirm(before: Run, outcome: Outcome, choice: Choice, place: Place) -> Outcome:
    """Measure what looks worse again, and count it with all its repeats: another program may have been in the way."""
    parts = [part for part in choice.parts if part in suite.OF_SCENARIOS]
    for _ in range(_REPEATS):
        names = compare.doubtful(before, outcome.run)
        if not names or outcome.failed:
            break
        click.echo(f"looks worse, and is measured again: {', '.join(sorted(names))}", err=True)
        chosen = [scenario for scenario in choice.scenarios if scenario.name in names]
        again = _run(choice._replace(parts=parts, scenarios=chosen), place)
        outcome = outcome._replace(run=outcome.run.joined(again.run), failed=again.failed)
    return outcome


def _run(choice: Choice, place: Place) -> Outcome:
    parts = suite.plan(choice, place)
    with _progress(sum(part.steps for part in parts)) as say:
        return suite.run(parts, place._replace(say=say))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show on a terminal how far the run is, and elsewhere a line a step."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as progress:
        task = progress.add_task("", total=total)

        def say(text: str) -> None:
            if console.is_terminal:
                progress.update(task, description=text)
            else:
                click.echo(text, err=True)
            progress.advance(task)

        yield say


def _show(outcome: Outcome, known: dict[str, scenarios.Scenario]) -> None:
    from rich.console import Console

    console = Console(soft_wrap=False, width=None if Console().is_terminal else 150)
    run = outcome.run
    console.print(f"{run.machine['cores']} x {run.machine['cpu']}; requests {run.bodies}")
    for name, version in run.systems.items():
        console.print(f"{name}: {version}", highlight=False)
    for table in (*tables.tables(run, known), targets.table(run), targets.missed_table(run, "")):
        if table.rows:
            console.print()
            console.print(tables.rich(table))
    for why in outcome.skipped:
        console.print(why)


def _write(run: Run, known: dict[str, scenarios.Scenario], out: Path) -> None:
    run.write(out / "results.json")
    (out / "summary.md").write_text(_summary(run, known), encoding="utf-8")
    pictures = 0
    if any(run.find("cpu")) or any(run.find("idle_rss")):
        try:
            from bench import plots
        except ModuleNotFoundError as error:
            click.echo(f"no pictures: {error}; `pip install 'spansieve[bench]'` brings it", err=True)
        else:
            pictures = len(plots.draw_all(run, known, out))
    click.echo(f"\nwritten to {out}: results.json, summary.md, {pictures} pictures")


def _summary(run: Run, known: dict[str, scenarios.Scenario]) -> str:
    return tables.summary(run, known, [targets.table(run), targets.missed_table(run, f"{_PROFILES}/")])


def _copy_profiles(run: Run, source: Path, folder: Path) -> None:
    """Copy the profiles that a run names from beside it to a folder."""
    if source.resolve() == folder.resolve():
        return
    for name in {profile.file for profile in run.profiles}:
        if (source / _PROFILES / name).is_file():
            (folder / _PROFILES).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / _PROFILES / name, folder / _PROFILES / name)


def _compare(before: Run, after: Run) -> bool:
    """Print what has changed and return whether anything has become worse."""
    comparison = compare.compare(before, after)
    for note in comparison.notes:
        click.echo(f"note: {note}", err=True)
    for change in comparison.regressions:
        click.secho(f"worse: {change}", fg="red", err=True)
    worst = len(comparison.regressions)
    click.echo(
        f"{len(comparison.changes)} figures compared with the run of {before.date}: {worst} worse", err=True
    )
    return bool(worst)


def _keep(run: Run, known: dict[str, scenarios.Scenario], release: str, out: Path) -> None:
    from bench import plots

    run.write(readme.RESULTS / f"{release}.json")
    if run.profiles:
        folder = readme.RESULTS / release
        _copy_profiles(run, out, folder)
        (folder / "summary.md").write_text(_summary(run, known), encoding="utf-8")
    plots.draw_history(readme.runs(), readme.RESULTS)
    readme.update()
    click.echo(f"kept as {release} in {readme.RESULTS}; the README's table is renewed")
