"""`ares export`: a run's weights as a model directory."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.command import RunName, console, next_step


def export(
    run: RunName,
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty.")],
    step: Annotated[int | None, typer.Option(help="The newest checkpoint at or before this step.")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="model.lora: the model with its adapters merged.")] = False,
) -> None:
    """Write a run's weights and tokenizer so that transformers, vLLM and lm-eval read them."""
    from ares.runs import export as write

    version = write(run, out, step, merge)
    console.print(f"{out}: the weights of {run} after step {version}")
    next_step(f"ares eval {out} --data PROBLEMS")
