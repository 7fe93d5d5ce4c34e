"""`ares data`: is a data set fit to train on, and what has a run made of its own."""

import json
import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ares.errors import UserError
from ares.printable import printable
from flows.cli.command import Overrides, RunName, console, errors, next_step, show_table, write_new
from flows.cli.completion import profile_names

if TYPE_CHECKING:
    from ares.config import CodeConfig, Config
    from ares.data import CheckReport

ROWS = 20
"""Faults that are shown; --json names all."""
NO_MODEL = "unused"
"""The model path that the base profile, which has none, is given."""

app = typer.Typer(help="Data sets: check one before it is trained on.", no_args_is_help=True)


@app.callback()
def data() -> None:
    """Data sets: check one before it is trained on."""


@app.command()
def check(
    file: Annotated[
        str,
        typer.Argument(
            help="A .jsonl, .json, .csv (.gz) or .parquet file, a glob, a folder, a Hugging Face data set; or a "
            "list of them, [FILE, FILE]."
        ),
    ],
    overrides: Overrides = None,
    code: Annotated[bool, typer.Option("--code", help="Rows have unit tests: reward.kind=code.")] = False,
    profile: Annotated[
        str, typer.Option(help="The profile whose settings are checked against.", autocompletion=profile_names)
    ] = "base",
    model: Annotated[
        str | None, typer.Option(help="Model or tokenizer that the prompts are for; default: the profile's.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="An evaluation suite that nothing of the set may come from, as FILE; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look at every row, run a code set's solutions, show three prompts whole. Exit status 1: something is wrong."""
    from ares.config import load

    settings = [*(["reward.kind=code"] if code else []), *(overrides or [])]
    named = [f"model.path={json.dumps(model or NO_MODEL)}"] if model or profile == "base" else []
    source = file if file.startswith("[") else json.dumps(file)
    one = [f"data.train={source}", "data.curriculum=null", "data.weights=null"]
    config = load(profile, [*named, *settings, *one])
    if config.learns_from != "samples":
        why = f"algorithm.policy.loss={config.algorithm.policy.loss}: only problems are checked here"
        raise UserError(f"{why}. A run checks all {config.learns_from} before its first step, and names a wrong one")
    report = _looked_at(config, model, against or [])
    if report.problems:
        _judge_solutions(report, config.reward.code)
    count = report.trained_on
    if as_json:
        told = {"file": file, "trained_on": count, "good": report.good, "counts": report.counts()}
        told["left_out"] = report.left_out
        told["findings"] = [asdict(each) for each in report.findings]
        told["failures"] = [asdict(each) for each in report.failures]
        told["prompts"] = [asdict(each) for each in report.examples]
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        _show_prompts(report)
        _show(report)
        console.print(f"{count} problems to train on")
        if too_few := config.too_few(count):
            console.print(too_few, style="yellow")
        if report.good:
            of = [] if profile != "base" and not model else [f"model.path={model or 'MODEL'}"]
            given = [f"data.train={file}", *of, *settings, *config.batch_that_fits(count)]
            fitting = profile if profile != "base" else "code" if code else "PROFILE"
            next_step(f"ares train {fitting} {shlex.join(given)}")
    raise typer.Exit(0 if report.good else 1)


@app.command()
def used(
    run: RunName,
    out: Annotated[Path | None, typer.Option(help="Write the table to this .csv file, a new one.")] = None,
) -> None:
    """What a run has made of its train set: each problem, how often drawn and trained on, with what accuracies."""
    from ares.history import ledger
    from ares.store import runs_directory

    table, gone = ledger(run, runs_directory())
    drawn = table["drawn"]
    if gone:
        why = "what they sampled is gone, as after `ares gc`"
        console.print(f"{len(gone)} steps up to {gone[-1]} are not counted: {why}")
    console.print(f"{len(table)} problems: {int((drawn == 0).sum())} never drawn, {int((drawn == 1).sum())} once, "
                  f"{int((drawn > 1).sum())} more often")  # fmt: skip
    console.print(f"{int(drawn.sum())} groups drawn, {int(table['trained'].sum())} trained on")
    often = table[drawn == drawn.max()] if drawn.max() else table.head(0)
    hardest = often.sort_values("mean").head(ROWS)
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()]
             for row in hardest.reset_index().to_dict("records")]  # fmt: skip
    if cells:
        show_table(f"of those drawn most often, the hardest {len(cells)}", ["id", *map(str, hardest.columns)], cells)
    if out is not None:
        write_new(out, table.to_csv())
        console.print(f"all: {out}")


def _looked_at(config: "Config", model: str | None, against: list[str]) -> "CheckReport":
    """Check the train set, its overlap with held-out sets and suites, and the held-out sets themselves.

    A model that --model names must exist; a profile's is optional.
    """
    from ares.data import check_rows, compare_with_held_out, find_overlaps, load_tokenizer, odd_in_template
    from ares.engines import end_token_ids
    from ares.step import OpenEnvironment

    data, needs = config.data, config.reward.needs
    vision = config.model.family == "vision_language"
    is_here = model is not None or Path(config.model.location).is_dir()
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code) if is_here else None
    environment = None if tokenizer is None else OpenEnvironment.of(config, tokenizer)
    data, begin = (data, None) if environment is None else (environment.data, environment.begin)
    how: dict[str, Any] = {"answer": config.reward.answer, "begin": begin}
    report = check_rows(data.train_sets[""], data.train_split, data, needs, tokenizer, vision, data.limit, **how)
    if tokenizer is not None:
        ends = end_token_ids(config.model.location, tokenizer)
        for number, odd in enumerate(odd_in_template(tokenizer, data.chat_template_kwargs, ends), 1):
            report.counted[f"chat template, {number}"] = odd
    for name, each in data.held_out.items():
        columns = data.with_columns_of(name)
        held_out = check_rows(each.source, each.split, columns, needs, None, vision, held_out=True, name=name, **how)
        compare_with_held_out(report, held_out, name, data.drop_shared)
        if report.problems:
            find_overlaps(report, held_out, name)
    for path in against:
        suite = check_rows(path, data.validation_split, data, "tests", held_out=True)
        if not suite.statements:
            raise UserError(f"--against {path}: no row has tests. Other sets are compared as data.validation")
        find_overlaps(report, suite, path)
    return report


def _judge_solutions(report: "CheckReport", limits: "CodeConfig") -> None:
    from rich.progress import Progress

    from ares.data import packages_of
    from ares.grading import check_solutions
    from sandbox import SandboxPool

    count = limits.workers or os.cpu_count() or 1
    needed = packages_of(limits.packages, (vars(problem) for _, problem in report.problems.values()))
    with (
        SandboxPool(count, limits.min_isolation, packages=needed) as pool,
        Progress(console=errors, transient=True) as bar,
    ):
        task = bar.add_task("programs, four a row")
        check_solutions(report, limits, pool, lambda done, total: bar.update(task, completed=done, total=total))


def _show_prompts(report: "CheckReport") -> None:
    """The first, the shortest and the longest prompt, whole."""
    for example in report.examples:
        console.rule(f"row {example.row}, {example.tokens} tokens", align="left", style="dim")
        console.print(printable(example.text))
    if report.examples:
        console.rule(style="dim")


def _show(report: "CheckReport") -> None:
    """The counts, every finding with its rows, every solution that fails, and the conclusion."""
    for name, value in report.counts().items():
        console.print(f"{name:48s} {value}")
    for finding in report.findings[:ROWS]:
        named = f" ({finding.id})" if finding.id else ""
        where = f"{finding.row}{named}: " if finding.row else ""
        console.print(f"{where}{finding.what}", style="red")
    if len(report.findings) > ROWS:
        console.print(f"{len(report.findings) - ROWS} more: --json", style="red")
    if report.failures:
        columns = ("row", "id", "error", "first failing test", "detail")
        failures = [(str(each.row), each.id, each.what, each.test, each.detail) for each in report.failures]
        show_table("\nreference solutions that their own tests do not accept", columns, failures, "red")
    console.print(f"\n{report.source}: {'good' if report.good else 'not to be trained on as it is'}")
