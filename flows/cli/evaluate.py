"""`ares eval`: pass@k of a run or a model, on held-out problems or a published suite, beside another evaluation."""

import json
import sys
from functools import partial
from typing import Annotated, Any

import typer

from flows.cli.command import Overrides, completed, console, errors, next_step, starting
from flows.cli.completion import profile_names, run_names, suite_names
from flows.cli.logs import keep_in

ROWS = 20
"""Rows that are named for each reason why rows are left out; summary.json names all."""


OF_OPTIONS = {
    "rollout.n": "--n", "validation.n": "--n", "rollout.temperature": "--temperature", "validation.turns": "--turns",
    "validation.max_prompts": "--max-problems",
}  # fmt: skip
"""Settings that an evaluation does not read, and the options it has instead."""


def evaluate(
    target: Annotated[str, typer.Argument(help="Name of a run, or a model directory.", autocompletion=run_names)],
    overrides: Overrides = None,
    data: Annotated[
        str | None,
        typer.Option(help="Problems, or the name of a held-out set; default: all. With --suite: where that lies."),
    ] = None,
    suite: Annotated[
        str | None,
        typer.Option(help="A published set, as humaneval+, or a file or folder.", autocompletion=suite_names),
    ] = None,
    form: Annotated[
        str | None, typer.Option(help="instruct or completion; default: whether there is a chat template.")
    ] = None,
    n: Annotated[int, typer.Option(help="Samples per problem.")] = 16,
    k: Annotated[str | None, typer.Option(help="pass@k for these, as 1,4,8.")] = None,
    step: Annotated[int | None, typer.Option(help="Of a run: the weights after this step.")] = None,
    turns: Annotated[int, typer.Option(help="2: a program that failed gets a second attempt, told its verdict.")] = 1,
    greedy: Annotated[bool, typer.Option("--greedy", help="One answer each, without sampling.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Default: validation.temperature.")] = None,
    max_problems: Annotated[int | None, typer.Option(help="Only this many problems, the first ones.")] = None,
    profile: Annotated[
        str, typer.Option(help="Settings for a model; a run has its own.", autocompletion=profile_names)
    ] = "base",
    out: Annotated[str | None, typer.Option(help="Folder to write; default: below the run.")] = None,
    sanity: Annotated[bool, typer.Option("--sanity", help="Judge the reference solutions of programs first.")] = False,
    compare: Annotated[str | None, typer.Option(help="Another finished evaluation: its name or folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """pass@k with intervals; the same command resumes an interrupted one."""
    for override in overrides or []:
        if option := OF_OPTIONS.get(name := override.partition("=")[0]):
            from ares.config import ConfigError

            raise ConfigError(f"an evaluation does not read {name}: give it {option}")
    with starting() as server:
        from pydantic import ValidationError

        from ares.cluster import Cluster, check_cluster
        from ares.config import ConfigError
        from ares.evaluation import Evaluation, EvaluationRequest
        from ares.reports import Parts, bars
        from flows.evaluate import evaluate_in_flow

        try:
            request = EvaluationRequest(
                target=target, data=data, suite=suite, form=form, n=n, k=_numbers(k), step=step, turns=turns,
                greedy=greedy, temperature=temperature, max_problems=max_problems, profile=profile,
                overrides=overrides or [], out=out, sanity=sanity, compare=compare,
            )  # fmt: skip
        except ValidationError as error:
            raise ConfigError("; ".join(_explained(each) for each in error.errors())) from error
        check_cluster()
        evaluation = Evaluation.open(request, Cluster)
        folder = evaluation.run.store.directory
        keep_in(folder)
        with bars(errors) as progress:
            evaluation.run.progress.watch = Parts(progress)
            flow = partial(evaluate_in_flow, evaluation)
            summary = completed(server, flow, "the same command resumes from the last shard")
    if as_json:
        sys.stdout.write(json.dumps(summary | {"folder": str(folder)}) + "\n")
    else:
        _show(summary, str(folder))
        if summary["step"] is not None:
            next_step(f"ares export {target} --step {summary['step']} --out FOLDER")


def _numbers(text: str | None) -> list[int] | None:
    from ares.config import ConfigError

    try:
        return [int(number) for number in text.split(",")] if text is not None else None
    except ValueError as error:
        raise ConfigError(f"--k {text}: whole numbers separated by commas, as 1,4,8") from error


def _explained(problem: Any) -> str:
    from ares.config import reason

    where = f"--{problem['loc'][0]} {problem['input']}: " if problem["loc"] else ""
    return where + reason(problem)


def _show(summary: dict[str, Any], folder: str) -> None:
    from rich import box
    from rich.table import Table

    weights = summary["target"] if summary["step"] is None else f"{summary['target']} after step {summary['step']}"
    how = f"{summary['samples']} samples at temperature {summary['temperature']:g}"
    how = how if summary["temperature"] else "greedy"
    of = f"{summary['suite']} ({summary['form']} form)" if "suite" in summary else summary["source"]
    title = f"{weights}: {summary['problems']} problems of {of}, {how}"
    table = Table(box=box.SIMPLE)
    for name in ("", "mean", "95 % interval", "problems"):
        table.add_column(name, justify="right" if name else "left")
    for of, estimates in {"": summary["estimates"], **summary["sets"]}.items():
        for name, estimate in estimates.items():
            figures = ("no figure", "", "0")
            if estimate["value"] is not None:
                is_known = estimate["low"] is not None
                interval = f"{estimate['low']:.3f} to {estimate['high']:.3f}" if is_known else "none: all are equal"
                figures = (f"{estimate['value']:.3f}", interval, str(estimate["problems"]))
            table.add_row(f"{of} {name}".strip(), *figures)
    console.print(title, style="bold", markup=False)
    console.print(table)
    if "base_tests" in summary:
        console.print(f"base: {summary['base_tests']}; without it: base and added tests together", markup=False)
    if "references" in summary:
        judged = summary["references"]
        known = f" (known to fail: {', '.join(judged['known_failures'])})" if judged["known_failures"] else ""
        console.print(f"reference solutions: {judged['accepted']} of {judged['solutions']} accepted{known}")
    console.print(f"mean length {summary['mean_length']:.1f} tokens, truncated {summary['truncated']:.1%}")
    if "second_turns" in summary:
        console.print(_told_of_second_turns(summary["second_turns"]))
    if "error_types" in summary:
        console.print("programs: " + ", ".join(f"{name} {share:.1%}" for name, share in summary["error_types"].items()))
    if "left_out" in summary:
        for why, ids in _by_reason(summary["left_out"]).items():
            more = f" and {len(ids) - ROWS} more" if len(ids) > ROWS else ""
            console.print(f"left out: {', '.join(ids[:ROWS])}{more}: {why}", style="yellow", markup=False)
    if summary["unscored"] or summary["overlong"]:
        console.print(
            f"left out: {summary['unscored']} samples without a score, {summary['overlong']} overlong prompts"
        )
    if "comparison" in summary:
        _show_comparison(summary["comparison"])
    console.print(folder, style="dim", markup=False)


def _told_of_second_turns(second: dict[str, int]) -> str:
    none = second["left_out"]
    left_out = f"; {none} that failed had none (cut off, or a verdict too long)" if none else ""
    return f"second_turn: with the second attempts of {second['samples']} programs that failed{left_out}"


def _by_reason(left_out: dict[str, str]) -> dict[str, list[str]]:
    ids: dict[str, list[str]] = {}
    for name, why in left_out.items():
        ids.setdefault(why, []).append(name)
    return ids


def _show_comparison(comparison: dict[str, Any]) -> None:
    """Paired differences over problems, and which problems only one of the two solves."""
    from rich import box
    from rich.table import Table

    other, step = comparison["target"], comparison["step"]
    other += "" if step is None else f" after step {step}"
    console.print(f"compared with {other} ({comparison['with']}), paired over problems", style="bold", markup=False)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("", "this", "other", "difference", "95 % (t)", "95 % (bootstrap)"):
        table.add_column(name, justify="right" if name else "left")
    for name, of in comparison["measures"].items():
        if of["problems"] < 2:
            table.add_row(name, "no figure")
            continue
        table.add_row(
            name, f"{of['this']:.3f}", f"{of['other']:.3f}", f"{of['difference']:+.3f}",
            f"{of['low']:+.3f} to {of['high']:+.3f}",
            f"{of['bootstrap_low']:+.3f} to {of['bootstrap_high']:+.3f}",
        )  # fmt: skip
    console.print(table)
    solved = comparison["solved"]
    console.print(
        f"solved ({solved['by']}): {solved['both']} by both, {solved['only_this']} only by this one, "
        f"{solved['only_other']} only by the other, {solved['neither']} by neither; "
        f"McNemar's exact p {solved['p']:.3f}",
        markup=False,
    )
