"""`ares eval`: pass@k of a run or a model."""

import json
import sys
from functools import partial
from typing import Annotated, Any

import typer

from flows.cli.command import Overrides, completed, console, errors, next_step
from flows.cli.completion import profile_names, run_names
from flows.cli.logs import keep_in
from flows.servers.local_server import local_api


def evaluate(
    target: Annotated[str, typer.Argument(help="Name of a run, or a model directory.", autocompletion=run_names)],
    overrides: Overrides = None,
    data: Annotated[
        str | None, typer.Option(help="Problems, or the name of a held-out set; default: all held-out ones.")
    ] = None,
    n: Annotated[int, typer.Option(help="Samples per problem.")] = 16,
    k: Annotated[str | None, typer.Option(help="pass@k for these, as 1,4,8.")] = None,
    step: Annotated[int | None, typer.Option(help="Of a run: the weights after this step.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="One answer each, without sampling.")] = False,
    temperature: Annotated[float | None, typer.Option(help="Default: validation.temperature.")] = None,
    max_problems: Annotated[int | None, typer.Option(help="The first so many problems.")] = None,
    profile: Annotated[
        str, typer.Option(help="Settings for a model; a run has its own.", autocompletion=profile_names)
    ] = "base",
    out: Annotated[str | None, typer.Option(help="Folder to write; default: below the run.")] = None,
    sanity: Annotated[bool, typer.Option("--sanity", help="Judge the reference solutions of programs first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """pass@k with intervals; the same command resumes an interrupted one."""
    with local_api() as server:  # starting while the libraries are imported and the data is read
        from pydantic import ValidationError

        from ares.config import ConfigError
        from ares.reports import Parts, bars
        from ares.runs import EvaluationRequest
        from flows.evaluate import ares_eval, prepare

        try:
            request = EvaluationRequest(
                target=target, data=data, n=n, k=_numbers(k), step=step, greedy=greedy, temperature=temperature,
                max_problems=max_problems, profile=profile, overrides=overrides or [], out=out, sanity=sanity,
            )  # fmt: skip
        except ValidationError as error:
            raise ConfigError("; ".join(_explained(each) for each in error.errors())) from error
        evaluation = prepare(request)
        folder = evaluation.run.store.directory
        keep_in(folder)
        with bars(errors) as progress:
            evaluation.run.progress.watch = Parts(progress)
            flow = partial(ares_eval.with_options(flow_run_name=folder.name), request)
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
    title = f"{weights}: {summary['problems']} problems of {summary['source']}, {how}"
    table = Table(box=box.SIMPLE)
    for name in ("", "mean", "95 % interval", "problems"):
        table.add_column(name, justify="right" if name else "left")
    for of, estimates in {"": summary["estimates"], **summary["sets"]}.items():
        for name, estimate in estimates.items():
            figures = ("no figure", "", "0")
            if estimate["value"] is not None:
                interval = f"{estimate['low']:.3f} to {estimate['high']:.3f}"
                figures = (f"{estimate['value']:.3f}", interval, str(estimate["problems"]))
            table.add_row(f"{of} {name}".strip(), *figures)
    console.print(title, style="bold", markup=False)
    console.print(table)
    if "references" in summary:
        of = summary["references"]
        known = f" (known to fail: {', '.join(of['known_failures'])})" if of["known_failures"] else ""
        console.print(f"reference solutions: {of['accepted']} of {of['solutions']} accepted{known}")
    console.print(f"mean length {summary['mean_length']:.1f} tokens, truncated {summary['truncated']:.1%}")
    if "error_types" in summary:
        console.print("programs: " + ", ".join(f"{name} {share:.1%}" for name, share in summary["error_types"].items()))
    if summary["unscored"] or summary["overlong"]:
        console.print(
            f"left out: {summary['unscored']} samples without a score, {summary['overlong']} overlong prompts"
        )
    console.print(folder, style="dim", markup=False)
