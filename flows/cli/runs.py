"""`ares fork`, `diff`, `verify`, `export`, `import` and `gc`: what is done with runs besides training them."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from ares.errors import UserError
from flows.cli.command import Overrides, RunName, console, errors, next_step, write_new


def fork(
    run: RunName,
    at: Annotated[int, typer.Option(min=0, help="Step up to which everything is shared; 0 is the bootstrap.")],
    overrides: Overrides = None,
    phase: Annotated[
        str | None, typer.Option(help="Share this step only up to here: rollout, score, experience or shape.")
    ] = None,
    name: Annotated[str | None, typer.Option("--run", help="Name of the fork.")] = None,
) -> None:
    """A new run that shares the artifacts of another one up to a step, without copies; `ares resume` trains it."""
    from ares.runs import fork as make
    from ares.store import runs_directory

    chosen = name or f"{run}-fork-{time.strftime('%Y%m%d-%H%M%S')}"
    changed = make(run, at, phase, overrides or [], chosen, runs_directory())
    console.print(f"{chosen}: {run} up to {f'phase {phase} of ' if phase else ''}step {at}")
    for line in changed:
        console.print(f"  {line}")
    next_step(f"ares resume {chosen}")


def diff(run_a: RunName, run_b: RunName) -> None:
    """Where two runs first differ, and in what; exit code 0 when bit-identical in weights, controllers and metrics."""
    from ares.config import differences
    from ares.runs import first_difference
    from ares.store import read_config, run_store

    one, other = (run_store(name) for name in (run_a, run_b))
    for line in differences(read_config(one), read_config(other)):
        console.print(f"setting {line}")
    difference = first_difference(one, other)
    if difference is None:
        steps = len(one.committed_steps()) - 1
        if steps < 0:
            raise UserError(f"{run_a} and {run_b} have no intact commit: there is nothing to compare")
        console.print(f"{run_a} and {run_b} are bit-identical in weights, controllers and metrics up to step {steps}")
        return
    step, lines = difference
    console.print(f"first difference: step {step}")
    for line in lines:
        console.print(f"  {line}")
    raise typer.Exit(1)


def verify(run: RunName) -> None:
    """Whether a run's files are what was written, and after which step it resumes; exit code 1 when any is damaged."""
    from ares.runs import verify as read_all
    from ares.store import run_store

    found = read_all(run_store(run))
    for line in found.damages:
        console.print(line)
    begins = "with the bootstrap" if found.resumes_after is None else f"after step {found.resumes_after}"
    console.print(
        f"{run}: {found.commits} commits and {len(found.intact)} artifacts whole, "
        f"{sum(ref.bytes for ref in found.intact):,d} bytes; {len(found.damages)} damaged; resumes {begins}",
    )
    raise typer.Exit(1 if found.damages else 0)


def export(
    run: RunName,
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty; with --pairs a new file.")],
    step: Annotated[int | None, typer.Option(help="The newest checkpoint at or before this step.")] = None,
    merge: Annotated[bool, typer.Option("--merge", help="model.lora: the model with its adapters merged.")] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Its samples in pairs, as JSON lines, for DPO.")] = False,
) -> None:
    """Write a run's weights and tokenizer so that transformers, vLLM and lm-eval read them; or pairs of its samples."""
    from ares.runs import export as write
    from ares.store import run_store

    if pairs:
        from ares.history import pairs as make_pairs

        if step is not None or merge:
            raise UserError("--pairs writes those of all steps: --step and --merge are for weights")
        lines = [json.dumps(pair) + "\n" for pair in make_pairs(run_store(run))]
        write_new(out, "".join(lines))
        console.print(f"{out}: {len(lines)} pairs of samples of {run}: prompt, chosen, rejected")
        return
    version = write(run, out, step, merge)
    console.print(f"{out}: the weights of {run} after step {version}")
    alone = (out / "adapter_config.json").exists()
    next_step(f"ares export {run} --merge --out FOLDER" if alone else f"ares eval {out} --data PROBLEMS")


def import_gguf(
    file: Annotated[Path, typer.Argument(help="A GGUF file; quantised weights become plain numbers.")],
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty.")],
) -> None:
    """Write the model of a GGUF file as a directory that can be trained (needs the package gguf)."""
    from ares.runs import import_gguf as write

    for odd in write(file, out):
        errors.print(f"The chat template of {file}: {odd}")
    console.print(f"{out}: the model of {file}, which answers as the file does")
    next_step(f"ares train PROFILE model.path={out}")


def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be deleted.")] = False,
    older_than: Annotated[float | None, typer.Option(help="Delete runs whose last step is this many days old.")] = None,
    max_size: Annotated[
        float | None, typer.Option(help="Delete the oldest runs until all take no more than this many GB.")
    ] = None,
    keep_best: Annotated[int, typer.Option(min=0, help="But keep this many with the highest held-out accuracies.")] = 0,
) -> None:
    """Delete what no run needs: leftovers, and working files of steps before the oldest kept checkpoint.

    With --older-than or --max-size whole runs too, but none that is being trained.
    """
    from ares.runs import Policy, collect

    policy = Policy(older_than, max_size, keep_best, working_files=True)
    total = collect(policy, dry_run, console.print)
    console.print(f"{'would free' if dry_run else 'freed'} {total:,d} bytes")
