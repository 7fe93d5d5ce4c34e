"""`ares sandbox`: what isolation this machine gives, the packages that programs have, the verdict on one program."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ares.printable import printable
from flows.cli.command import console, errors, show_table

if TYPE_CHECKING:
    from sandbox import Verdict

app = typer.Typer(help="The sandboxed executor: probe this machine, judge one program.", no_args_is_help=True)
packages_app = typer.Typer(help="Packages that programs and tests may import.", no_args_is_help=True)
app.add_typer(packages_app, name="packages")


@app.command()
def probe() -> None:
    """Show which layers of isolation this machine gives, and how to get the missing ones."""
    from sandbox.isolation import LAYERS
    from sandbox.worker_process import WorkerLost, WorkerProcess

    try:
        worker = WorkerProcess(LAYERS)
    except WorkerLost as error:
        errors.print(f"the sandbox does not start: {error}")
        raise typer.Exit(1) from error
    worker.kill()
    report = worker.report
    for layer in LAYERS:
        console.print(report.explain(layer))
    list_packages()
    if lacking := report.lacking():
        console.print(f"Below the floor: {', '.join(lacking)} missing. Training refuses to judge programs here.")
        raise typer.Exit(1)
    console.print("min_isolation=standard: yes")


@app.command()
def run(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="The program.")],
    tests: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Its tests, separated by empty lines.")],
    entry_point: Annotated[str | None, typer.Option(help="The function that a check(candidate) text tests.")] = None,
    setup: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="The prompt's helpers.")] = None,
    cpu_seconds: Annotated[float, typer.Option(min=0.01, help="CPU seconds for each test.")] = 2.0,
    memory_mb: Annotated[int, typer.Option(min=1, help="MiB for the program.")] = 512,
    min_isolation: Annotated[str, typer.Option(help="standard, or none to run with whatever there is.")] = "standard",
    package: Annotated[list[str] | None, typer.Option(help="A module it may import, as numpy; once for each.")] = None,
) -> None:
    """Judge one program by its tests and show the verdict. The exit status is 0 only when it is accepted."""
    from sandbox import Program, SandboxPool, SandboxUnavailable

    try:
        texts = split_tests(read_text(tests), entry_point)
        program = Program(
            source=file.read_text(errors="surrogateescape"),
            tests=texts,
            setup=read_text(setup) if setup is not None else "",
            entry_point=entry_point,
            cpu_seconds=cpu_seconds,
            memory_mb=memory_mb,
        )
        with SandboxPool(min_isolation=min_isolation, packages=package or ()) as pool:
            (verdict,) = pool.run([program])
    except (SandboxUnavailable, ValueError) as error:
        errors.print(str(error))
        raise typer.Exit(2) from error
    show(verdict, texts)
    raise typer.Exit(0 if verdict.error_type == "accepted" else 1)


@packages_app.command()
def add(
    names: Annotated[list[str] | None, typer.Argument(help="As pip takes them: numpy, pandas==3.0.1.")] = None,
    lock: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Install what this lock file holds, instead.")
    ] = None,
) -> None:
    """Add packages, with what they require, from wheels; versions and hashes are locked beside them."""
    from sandbox import packages

    if (lock is None) == (not names):
        raise typer.BadParameter("give names of packages, or --lock")
    packages.add_locked(lock) if lock is not None else packages.add(names or [])
    list_packages()


@packages_app.command("list")
def list_packages() -> None:
    """Show the packages, their versions and the names by which programs import them."""
    from sandbox import packages

    installed = packages.installed()
    for each in installed:
        imported = ", ".join(name for name in each.modules if not name.startswith("_"))
        console.print(f"package {each.name} {each.version}: import {imported}")
    none = "" if installed else " none: programs have the standard library (ares sandbox packages add numpy)"
    console.print(f"packages:{none or f' {packages.folder() / packages.LOCK}'}")


@packages_app.command()
def remove(names: Annotated[list[str], typer.Argument(help="Packages that were added.")]) -> None:
    """Remove packages, with what only they required."""
    from sandbox import packages

    packages.remove(names)
    list_packages()


def read_text(path: Path) -> str:
    """A file of tests. Raises ValueError unless it is UTF-8."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text (byte {error.start + 1})") from error


def split_tests(text: str, entry_point: str | None) -> list[str]:
    """The tests in a text: one per paragraph, one per line in a paragraph of asserts; all one with an entry point."""
    if entry_point is not None:
        return [text]
    split: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
        if lines and all(line.startswith("assert ") for line in lines):
            split += lines
        elif lines:
            split.append("\n".join(lines))
    return split


def show(verdict: "Verdict", texts: list[str]) -> None:
    """Print a verdict: the total and a line per test, then what it took and what the program wrote."""
    rows = []
    for text, outcome in zip(texts, verdict.tests, strict=True):
        first, *rest = text.strip().splitlines()
        shown = f"{first[:60]}{' …' if rest or len(first) > 60 else ''}"
        rows.append((shown, outcome.verdict, f"{outcome.cpu:.3f}", outcome.detail))
    ratio = "no score" if verdict.pass_ratio is None else f"{100 * verdict.pass_ratio:.0f} % of the tests"
    show_table(f"{verdict.error_type}: {ratio}", ("test", "verdict", "CPU s", "detail"), rows)
    mebibytes = verdict.peak_rss / (1 << 20)
    console.print(f"CPU {verdict.exec_time:.3f} s, wall {verdict.wall_time:.3f} s, peak {mebibytes:.0f} MiB")
    console.print(f"isolation {verdict.isolation}")
    if not all(outcome.trusted or outcome.foreign for outcome in verdict.tests):
        console.print("A test compares the program's own objects: it ran in the program's process, which could lie.")
    for name, text in (("stdout", verdict.stdout), ("stderr", verdict.stderr)):
        if text:
            console.print(f"--- {name}\n{printable(text.rstrip())}")
