"""`ares ablate` and `ares report`: variants of a profile over seeds, trained and compared."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.command import Overrides, completed, console, errors, next_step, starting, warn_of_idle
from flows.cli.logs import keep_in


def ablate(
    ablation: Annotated[str, typer.Argument(help="An ablation's name, or the path of its YAML file.")],
    overrides: Overrides = None,
    name: Annotated[str | None, typer.Option(help="Another name for it, as other settings need.")] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Children at a time. Default: as many as cores or the GPU allow.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it, list the children and stop.")] = False,
) -> None:
    """Train every variant over every seed; the same command resumes where it stopped."""
    if dry_run:
        _list_children(ablation, overrides, name, parallel)
        return
    with starting() as server:
        from flows.ablate import ChildrenFailed, prepare
        from flows.deployed import ares_ablate

        plan = prepare(ablation, overrides, name, parallel)
        prepared = plan.ablation.name
        keep_in(plan.folder)
        warn_of_idle(*((child.config, child.overrides) for child in plan.children))
        flow = partial(ares_ablate.with_options(flow_run_name=prepared), ablation, overrides, name, parallel)
        try:
            result = completed(server, flow, "the same command resumes, and nothing that is finished is done again")
        except ChildrenFailed as error:
            result = error.result
    console.print(f"\n{result['conclusion']}\nreport: {result['report']}", markup=False)
    if result["failed"]:
        errors.print(f"{len(result['failed'])} of {len(result['failed']) + len(result['finished'])} children failed")
        raise typer.Exit(1)
    next_step(f"open {result['report']}")


def report(
    experiment: Annotated[
        str | None, typer.Argument(help="MLflow experiment of an ablation: the ablation's name.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The .html file to write; default: report.html in the ablation's folder.")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option("--from", help="The .csv file of a report, instead of MLflow; --out lies beside it.")
    ] = None,
) -> None:
    """Write an ablation's report again from what MLflow has of it, or from the rows beside another report."""
    from ares.ablations import conclude, read_csv, read_rows, write_page, write_report
    from ares.config import ConfigError
    from ares.store import runs_directory, tracking_uri

    if out is not None and out.suffix != ".html":
        raise ConfigError(f"--out {out}: the report is an .html file (its rows go beside it as .csv)")
    if (experiment is None) == (rows is None):
        raise ConfigError("Name an MLflow experiment, or a file of rows with --from")
    if rows is not None:
        stored, page = read_csv(rows), out or rows.with_suffix(".html")
        write_page(stored, page, rows)
        console.print(f"{conclude(stored)}\nreport: {page}", markup=False)
        return
    assert experiment is not None
    runs = runs_directory()
    stored = read_rows(experiment, tracking_uri(None, runs))
    files = write_report(stored, out or runs / stored.definition.name / "report.html")
    console.print(f"{conclude(stored)}\nreport: {files[0]}\nrows:   {files[1]}", markup=False)


def _list_children(ablation: str, overrides: list[str] | None, name: str | None, parallel: int | None) -> None:
    from flows.ablate import prepare

    plan = prepare(ablation, overrides, name, parallel)
    warn_of_idle(*((child.config, child.overrides) for child in plan.children))
    for child in plan.children:
        console.print(f"{child.name}  {' '.join(child.overrides)}", markup=False)
    console.print(f"{len(plan.children)} children, {plan.parallel} at a time")
    next_step(f"ares ablate {ablation}")
