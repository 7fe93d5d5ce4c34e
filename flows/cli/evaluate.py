"""`ares eval`: pass@k of a run or a model, on held-out problems or a published suite, beside another evaluation."""

import json
import sys
from collections import Counter
from typing import Annotated, Any

import typer

from ares.errors import UserError
from flows.cli.command import Overrides, Prepared, console, errors, next_step, run_to_its_end, show_table
from flows.cli.completion import profile_names, run_names, suite_names

OF_OPTIONS = {
    "rollout.n": "--n", "validation.n": "--n", "rollout.temperature": "--temperature", "validation.turns": "--turns",
    "validation.max_prompts": "--max-problems", "data.limit": "--max-problems",
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
    sanity: Annotated[bool, typer.Option("--sanity", help="Judge the reference solutions of programs first.")] = False,
    compare: Annotated[str | None, typer.Option(help="Another finished evaluation: its folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """pass@k with intervals; the same command resumes an interrupted one."""
    given = dict(locals()) | {"overrides": overrides or [], "k": k.split(",") if k is not None else None}
    del given["as_json"]
    for override in overrides or []:
        if option := OF_OPTIONS.get(name := override.partition("=")[0]):
            raise UserError(f"an evaluation does not read {name}: give it {option}")

    def begin() -> Prepared:
        from pydantic import ValidationError

        from ares.cluster import Cluster, check_cluster
        from ares.evaluation import Evaluation, EvaluationRequest
        from ares.reports import Parts, bars
        from flows.evaluate import conduct

        try:
            request = EvaluationRequest(**given)
        except ValidationError as error:
            raise UserError("; ".join(_explained(each) for each in error.errors())) from error
        check_cluster()
        evaluation = Evaluation.open(request, Cluster)
        folder = evaluation.run.store.directory

        async def work() -> dict[str, Any]:
            with bars(errors) as progress:
                evaluation.run.progress.watch = Parts(progress)
                return await conduct(evaluation) | {"folder": str(folder)}

        return folder, work

    summary = run_to_its_end("ares-eval", begin, "the same command resumes from the last shard")
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
    else:
        _show(summary)
        if summary["step"] is not None:
            next_step(f"ares export {target} --step {summary['step']} --out FOLDER")


def _explained(problem: Any) -> str:
    from ares.config import reason

    where = f"--{problem['loc'][0].replace('_', '-')} {problem['input']}: " if problem["loc"] else ""
    return where + reason(problem)


def _show(summary: dict[str, Any]) -> None:
    """The estimates, then what else is to be known of them."""
    weights = summary["target"] if summary["step"] is None else f"{summary['target']} after step {summary['step']}"
    how = f"{summary['samples']} samples at temperature {summary['temperature']:g}"
    of = f"{summary['suite']} ({summary['form']} form)" if "suite" in summary else summary["source"]
    title = f"{weights}: {summary['problems']} problems of {of}, {how if summary['temperature'] else 'greedy'}"
    rows = [
        (f"{of} {name}".strip(), *_figures(estimate))
        for of, estimates in {"": summary["estimates"], **summary["sets"]}.items()
        for name, estimate in estimates.items()
    ]
    show_table(title, ("", "mean", "95 % interval", "problems"), rows)
    judged = summary.get("references")
    facts = {
        "mean length": f"{summary['mean_length']:.1f} tokens, truncated {summary['truncated']:.1%}",
        "base": summary.get("base_tests"),
        "reference solutions": judged and f"{judged['accepted']} of {judged['solutions']} accepted",
        "programs": ", ".join(f"{name} {share:.1%}" for name, share in summary.get("error_types", {}).items()),
        "left out": "; ".join(f"{n} rows, {why}" for why, n in Counter(summary.get("left_out", {}).values()).items()),
        "samples without a score": summary["unscored"],
        "overlong prompts": summary["overlong"],
    }
    for name, fact in facts.items():
        if fact:
            console.print(f"{name}: {fact}")
    if "comparison" in summary:
        _show_comparison(summary["comparison"])
    console.print(summary["folder"], style="dim")


def _figures(estimate: dict[str, Any]) -> tuple[str, str, str]:
    if estimate["value"] is None:
        return "no figure", "", "0"
    return f"{estimate['value']:.3f}", _interval(estimate, ".3f"), str(estimate["problems"])


def _interval(found: dict[str, Any], digits: str) -> str:
    low, high = found["low"], found["high"]
    return "none: all are equal" if low is None else f"{low:{digits}} to {high:{digits}}"


def _show_comparison(comparison: dict[str, Any]) -> None:
    """Paired differences over problems, and which problems only one of the two solves."""
    step = "" if comparison["step"] is None else f" after step {comparison['step']}"
    title = f"compared with {comparison['target']}{step} ({comparison['with']}), paired over problems"
    rows = [
        (name, f"{of['this']:.3f}", f"{of['other']:.3f}", f"{of['difference']:+.3f}", _interval(of, "+.3f"))
        for name, of in comparison["measures"].items()
        if of["problems"] > 1
    ]
    show_table(title, ("", "this", "other", "difference", "95 % interval"), rows)
    solved = comparison["solved"]
    console.print(
        f"solved ({solved['by']}): {solved['both']} by both, {solved['only_this']} only by this one, "
        f"{solved['only_other']} only by the other, {solved['neither']} by neither",
    )
