"""`ares data`: is a data set fit to train on."""

import json
import os
import shlex
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import Overrides, console, errors, next_step
from flows.cli.completion import profile_names

if TYPE_CHECKING:
    from ares.config import CodeConfig
    from ares.data import CheckReport

app = typer.Typer(help="Data sets: check one before it is trained on.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Data sets: check one before it is trained on."""


@app.command()
def check(
    file: Annotated[str, typer.Argument(help="A .jsonl (.gz) or .parquet file, or a Hugging Face data set.")],
    overrides: Overrides = None,
    code: Annotated[bool, typer.Option("--code", help="Rows have unit tests: reward.kind=code.")] = False,
    profile: Annotated[
        str, typer.Option(help="The profile whose settings are checked against.", autocompletion=profile_names)
    ] = "base",
    model: Annotated[str | None, typer.Option(help="Model or tokenizer that measures the prompts.")] = None,
    split: Annotated[str, typer.Option(help="Split of a Hugging Face data set.")] = "train",
    workers: Annotated[int | None, typer.Option(min=1, help="Sandbox processes; default: one a core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look at every row, and run a code set's reference solutions. Exit status 1 when anything is wrong."""
    from ares.config import load

    settings = [f"model.path={model or 'unused'}", *(["reward.kind=code"] if code else []), *(overrides or [])]
    config = load(profile, [f"data.train={json.dumps(file)}", *settings])

    from ares.data import check_rows, compare_with_held_out, load_tokenizer

    code, math = config.reward.judges_programs, config.reward.kind == "math"
    tokenizer = load_tokenizer(model, config.model.trust_remote_code) if model else None
    report = check_rows(file, split, config.data, code, tokenizer, math)
    held_out, its_split = config.data.validation, config.data.validation_split
    if held_out is not None and (held_out, its_split) != (file, split):
        compare_with_held_out(report, check_rows(held_out, its_split, config.data, code))
    if any(problem.solution is not None for _, problem in report.problems.values()):
        _judge_solutions(report, config.reward.code, workers)
    if as_json:
        shown = {
            "file": file,
            "good": report.good,
            "counts": report.counts(),
            "findings": [asdict(finding) for finding in report.findings],
            "failures": [asdict(failure) for failure in report.failures],
        }
        sys.stdout.write(json.dumps(shown) + "\n")
    else:
        _show(report)
        if report.good:
            named = "PROFILE" if profile == "base" else profile
            given = [f"data.train={file}", f"model.path={model or 'MODEL'}", *settings[1:]]
            next_step(f"ares train {named} {shlex.join(given)}")
    raise typer.Exit(0 if report.good else 1)


def _judge_solutions(report: "CheckReport", limits: "CodeConfig", workers: int | None) -> None:
    from rich.progress import Progress

    from ares.data import check_solutions
    from sandbox import SandboxPool

    count = workers or limits.workers or os.cpu_count() or 1
    with SandboxPool(count, limits.min_isolation) as pool, Progress(console=errors, transient=True) as bar:
        task = bar.add_task("reference solutions")
        check_solutions(report, limits, pool, lambda done, total: bar.update(task, completed=done, total=total))


def _show(report: "CheckReport") -> None:
    """The counts, every finding with its rows, every solution that fails, and the conclusion."""
    for name, value in report.counts().items():
        console.print(f"{name:48s} {value}")
    rows_of: dict[str, list[str]] = {}
    for finding in report.findings:
        where = f"{finding.row} ({finding.id})" if finding.id else str(finding.row)
        rows_of.setdefault(finding.what, []).append(where)
    for what, rows in rows_of.items():
        console.print(f"\n{what}", style="red", markup=False)
        console.print(f"  {'row' if len(rows) == 1 else f'{len(rows)} rows:'} {', '.join(rows)}", markup=False)
    if report.failures:
        from rich import box
        from rich.markup import escape
        from rich.table import Table

        console.print("\nreference solutions that their own tests do not accept", style="red")
        table = Table(box=box.SIMPLE)
        for title in ("row", "id", "error", "first failing test", "detail"):
            table.add_column(title, overflow="fold")
        for failure in report.failures:
            cells = (str(failure.row), failure.id, failure.error_type, failure.test, failure.detail)
            table.add_row(*(escape(cell) for cell in cells))
        console.print(table)
    console.print(f"\n{report.source}: {'good' if report.good else 'not to be trained on as it is'}", markup=False)
