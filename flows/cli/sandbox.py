"""`ares sandbox`: what isolation this machine gives, and the verdict on one program."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import console, errors

if TYPE_CHECKING:
    from sandbox import Verdict

app = typer.Typer(help="The sandboxed executor: probe this machine, judge one program.", no_args_is_help=True)


@app.command()
def probe() -> None:
    """Show which layers of isolation this machine gives, and how to get the missing ones."""
    from sandbox import IsolationReport
    from sandbox.worker_process import ALL_LAYERS, WorkerLost, WorkerProcess

    try:
        worker = WorkerProcess(ALL_LAYERS)
    except WorkerLost as error:
        errors.print(f"the sandbox does not start: {error}", markup=False)
        raise typer.Exit(1) from error
    worker.kill()
    report = IsolationReport.from_worker(worker.report)
    for line in report.lines():
        console.print(line, markup=False)
    if (recipe := report.container_recipe()) is not None:
        console.print(recipe, markup=False)
    lacking = report.lacking()
    console.print(f"worker start: {1000 * worker.start_seconds:.0f} ms")
    if lacking:
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
) -> None:
    """Judge one program by its tests and show the verdict. The exit status is 0 only when it is accepted."""
    from sandbox import Program, SandboxPool, SandboxUnavailable

    texts = split_tests(tests.read_text(), entry_point)
    try:
        program = Program(
            source=file.read_text(errors="surrogateescape"),
            tests=texts,
            setup=setup.read_text() if setup is not None else "",
            entry_point=entry_point,
            cpu_seconds=cpu_seconds,
            memory_mb=memory_mb,
        )
        with SandboxPool(min_isolation=min_isolation) as pool:
            (verdict,) = pool.run([program])
    except (SandboxUnavailable, ValueError) as error:
        errors.print(str(error), markup=False)
        raise typer.Exit(2) from error
    show(verdict, texts)
    raise typer.Exit(0 if verdict.error_type == "accepted" else 1)


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
    """Print a verdict: a line per test, then the totals and what the program wrote."""
    from rich.table import Table

    table = Table("test", "verdict", "CPU s", "detail", box=None, pad_edge=False)
    for text, outcome in zip(texts, verdict.tests, strict=True):
        first, *rest = text.strip().splitlines()
        shown = f"{first[:60]}{' …' if rest or len(first) > 60 else ''}"
        table.add_row(*map(escape, (shown, outcome.verdict, f"{outcome.cpu:.3f}", outcome.detail)))
    console.print(table)
    ratio = "no score" if verdict.pass_ratio is None else f"{100 * verdict.pass_ratio:.0f} % of the tests"
    console.print(f"{verdict.error_type}: {ratio}")
    mebibytes = verdict.peak_rss / (1 << 20)
    console.print(f"CPU {verdict.exec_time:.3f} s, wall {verdict.wall_time:.3f} s, peak {mebibytes:.0f} MiB")
    console.print(f"isolation {verdict.isolation}")
    if not verdict.trusted_compare:
        console.print("A test compares the program's own objects: it ran in the program's process, which could lie.")
    for name, text in (("stdout", verdict.stdout), ("stderr", verdict.stderr)):
        if text:
            console.print(f"--- {name}\n{text.rstrip()}", markup=False)


def escape(text: str) -> str:
    """Text for a rich table, with its brackets taken literally."""
    return text.replace("[", "\\[")


if __name__ == "__main__":
    app()
