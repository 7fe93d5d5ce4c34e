"""`ares ablate`: variants of a profile over seeds, compared in MLflow."""

import logging
from contextlib import ExitStack
from typing import Annotated

import typer
from rich.console import Console

console = Console(highlight=False, soft_wrap=True)
errors = Console(stderr=True, soft_wrap=True)


def ablate(
    ablation: Annotated[str, typer.Argument(help="An ablation's name, or the path of its YAML file.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Dotted overrides, laid over every child.")] = None,
    name: Annotated[str | None, typer.Option(help="Another name for it, as other settings need.")] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Children at a time. Default: as many as cores or the GPU allow.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check it, list the children and stop.")] = False,
) -> None:
    """Train every variant over every seed; the same command goes on where it stopped."""
    if dry_run:
        _list_children(ablation, overrides, name, parallel)
        return
    from flows.local_server import local_api

    with local_api() as server, ExitStack() as stack:  # starting while the libraries are imported and input is checked
        import asyncio

        from prefect.exceptions import TerminationSignal

        from flows.ablate import ares_ablate, prepare

        prepared = prepare(ablation, overrides, name, parallel).ablation.name
        if server:
            stack.enter_context(server.connected())
        logging.getLogger("prefect").setLevel(logging.CRITICAL)  # what goes wrong is told once, by the display
        flow = ares_ablate.with_options(flow_run_name=prepared)
        try:
            result = asyncio.run(flow(ablation, overrides, name, parallel))
        except (KeyboardInterrupt, TerminationSignal, SystemExit):
            errors.print("stopped; the same command goes on, and nothing that is finished is done again")
            raise typer.Exit(130) from None
    if result["failed"]:
        errors.print(f"{len(result['failed'])} of {len(result['failed']) + len(result['finished'])} children failed")
        raise typer.Exit(1)


def _list_children(ablation: str, overrides: list[str] | None, name: str | None, parallel: int | None) -> None:
    from flows.ablate import prepare

    plan = prepare(ablation, overrides, name, parallel)
    for child in plan.children:
        console.print(f"{child.name}  {' '.join(child.overrides)}", markup=False)
    console.print(f"{len(plan.children)} children, {plan.parallel} at a time")
