"""`ares ablate` and `ares report`: variants of a profile over seeds, trained and compared."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.command import Overrides, completed, console, next_step
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
    from flows.servers.local_server import local_api

    with local_api() as server:  # it starts while libraries load and input is read
        from flows.ablate import prepare
        from flows.deployed import ares_ablate

        plan = prepare(ablation, overrides, name, parallel)
        keep_in(plan.folder)
        named = ares_ablate.with_options(flow_run_name=plan.ablation.name)
        flow = partial(named, ablation, overrides, name, parallel)
        result = completed(server, flow, "the same command resumes, and nothing that is finished is done again")
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
    from ares.ablations import conclude, read_csv, read_rows, write_report
    from ares.config import ConfigError
    from ares.store import runs_directory, tracking_uri

    if out is not None and out.suffix != ".html":
        raise ConfigError(f"--out {out}: the report is an .html file (its rows go beside it as .csv)")
    if (experiment is None) == (rows is None):
        raise ConfigError("Name an MLflow experiment, or a file of rows with --from")
    runs = runs_directory()
    if rows is not None:
        stored, page = read_csv(rows), rows.with_suffix(".html")
    else:
        stored = read_rows(str(experiment), tracking_uri(None, runs))
        page = runs / stored.definition.name / "report.html"
    written = write_report(stored, out or page, rows)
    console.print(f"{conclude(stored)}\nreport: {written[0]}", markup=False)


def _list_children(ablation: str, overrides: list[str] | None, name: str | None, parallel: int | None) -> None:
    from flows.ablate import prepare

    plan = prepare(ablation, overrides, name, parallel)
    for child in plan.children:
        console.print(f"{child.name}  {' '.join(child.overrides)}", markup=False)
    console.print(f"{len(plan.children)} children, {plan.parallel} at a time")
    next_step(f"ares ablate {ablation}")
