"""`ares ablate` and `ares report`: variants of a profile over seeds, trained and compared."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ares.errors import UserError
from flows.cli.command import Overrides, Prepared, console, next_step, run_to_its_end


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
        from flows.ablate import prepare

        plan = prepare(ablation, overrides, name, parallel)
        for child in plan.children:
            console.print(f"{child.name}  {' '.join(child.overrides)}")
        console.print(f"{len(plan.children)} children, {plan.parallel} at a time")
        next_step("the same command without --dry-run")
        return

    def begin() -> Prepared:
        from flows.ablate import prepare, run_ablation

        plan = prepare(ablation, overrides, name, parallel)
        return plan.folder, partial(run_ablation, plan)

    resumes = "the same command resumes, and nothing that is finished is done again"
    result = run_to_its_end("ares-ablate", begin, resumes)
    next_step(f"open {result['report']}")


def report(
    ablation: Annotated[str | None, typer.Argument(help="Name of an ablation that was started.")] = None,
    rows: Annotated[
        Path | None, typer.Option("--from", help="The .csv file of a report, instead; it is written beside it.")
    ] = None,
) -> None:
    """Write an ablation's report again, from its children's commits or from the rows beside another report."""
    from ares.ablations import conclude, read_csv, read_rows, write_report
    from ares.store import runs_directory

    if rows is not None and ablation is None:
        stored, page = read_csv(rows), rows.with_suffix(".html")
    elif ablation is not None and rows is None:
        stored, page = read_rows(ablation, runs_directory()), runs_directory() / ablation / "report.html"
    else:
        raise UserError("Name an ablation, or a file of rows with --from")
    written = write_report(stored, page)
    console.print(f"{conclude(stored)}\nreport: {written[0]}")
