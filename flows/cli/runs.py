"""`ares fork`, `diff`, `verify`, `export`, `import` and `gc`: what is done with runs besides training them."""

import re
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.command import Overrides, RunName, console, errors, next_step, show_table
from flows.cli.completion import run_names


def fork(
    run: RunName,
    at: Annotated[int, typer.Option(help="Step up to which everything is shared; 0 is the bootstrap.")],
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
    console.print(f"{chosen}: {run} up to {f'phase {phase} of ' if phase else ''}step {at}", markup=False)
    for line in changed:
        console.print(f"  {line}", markup=False)
    next_step(f"ares resume {chosen}")


def rescore(
    run: RunName,
    overrides: Overrides = None,
    steps: Annotated[str, typer.Option(help="Which steps, as 1:60; 0 is the bootstrap.")] = "0:",
) -> None:
    """Judge a run's stored samples again, by another reward or a repaired verifier: what changes, and from where on."""
    from ares.config import ConfigError
    from ares.history import Judged, Rescore
    from ares.store import runs_directory

    found = re.fullmatch(r"(\d+):(\d*)", steps)
    if found is None:
        raise ConfigError(f"--steps {steps}: from and to, as 1:60, or 1: for all from step 1 on")
    judged: list[Judged] = []
    with Rescore(run, overrides or [], runs_directory()) as again:
        if again.run.fork is not None:
            console.print(f"steps 0 to {again.shared} are of {again.run.fork.run}", style="dim", markup=False)
        for one in again.steps(int(found[1]), int(found[2] or 10**6)):
            judged.append(one)
            console.print(f"step {one.step}: {one.samples} samples, {one.changed} with another verdict", style="dim")
    columns = ["step", "samples", "changed", "raised", "lowered", "lost", "ranks", "revived", "dropped", "signs"]
    changed = [one for one in judged if one.changed or one.differs]
    if not changed:
        console.print(f"{run}: of {sum(one.samples for one in judged)} samples, none has another verdict", markup=False)
        return
    cells = [[str(getattr(one, name)) for name in columns] for one in changed]
    show_table(f"{run}, judged again", columns, cells)
    console.print(f"verdicts: {again.run.store.directory / again.folder}", markup=False)
    differing = [one.step for one in judged if one.differs]
    if 0 in differing:
        console.print("the bootstrap's difficulties differ", markup=False)
    if not any(differing):
        console.print("the batches of these steps would have been the same", markup=False)
        return
    first = next(step for step in differing if step)
    console.print(f"training would have gone another way from step {first} on", markup=False)
    changes = "".join(f" {each}" for each in overrides or [])
    next_step(f"ares fork {run} --at {first} --phase rollout{changes} --run {run}-rescored")


def replay(
    run: RunName,
    step: Annotated[int, typer.Option(help="The step whose update is made again.")],
    overrides: Overrides = None,
) -> None:
    """One step's update again, in this process: as it was, and as other settings would have made it."""
    from ares.history import replay as update_again
    from ares.store import runs_directory

    updates = update_again(run, step, overrides or [], runs_directory())
    figures = [
        {"change of the weights": update.moved, "cosine with the run's": update.cosine,
         "log-prob where advantage > 0": update.raised, "log-prob where advantage < 0": update.lowered} | update.metrics
        for update in updates
    ]  # fmt: skip
    titles = ["", f"step {step}", *[" ".join(overrides or [])][: len(updates) - 1]]
    names = list(dict.fromkeys(name for figure in figures for name in figure))
    cells = [[name, *(f"{figure[name]:+.6g}" if name in figure else "" for figure in figures)] for name in names]
    show_table(f"{run}, the update of step {step}", titles, cells)
    changes = "".join(f" {each}" for each in overrides or [])
    next_step(f"ares fork {run} --at {step} --phase rollout{changes} --run {run}-again")


def diff(run_a: RunName, run_b: RunName) -> None:
    """Where two runs first differ, and in what; exit code 0 when bit-identical in weights, controllers and metrics."""
    from ares.config import differences
    from ares.runs import first_difference, read_config
    from ares.store import run_store

    one, other = (run_store(name) for name in (run_a, run_b))
    for line in differences(read_config(one), read_config(other)):
        console.print(f"setting {line}", markup=False)
    difference = first_difference(one, other)
    if difference is None:
        steps = len(one.committed_steps()) - 1
        console.print(f"{run_a} and {run_b} are bit-identical in weights, controllers and metrics up to step {steps}")
        return
    step, lines = difference
    console.print(f"first difference: step {step}")
    for line in lines:
        console.print(f"  {line}", markup=False)
    raise typer.Exit(1)


def verify(run: RunName) -> None:
    """Whether a run's files are what was written, and after which step it resumes; exit code 1 when any is damaged."""
    from ares.runs import verify as read_all
    from ares.store import run_store

    found = read_all(run_store(run))
    for line in found.damages:
        console.print(line, markup=False)
    begins = "with the bootstrap" if found.resumes_after is None else f"after step {found.resumes_after}"
    console.print(
        f"{run}: {found.commits} commits and {len(found.intact)} artifacts whole, "
        f"{sum(ref.bytes for ref in found.intact):,d} bytes; {len(found.damages)} damaged; resumes {begins}",
        markup=False,
    )
    raise typer.Exit(1 if found.damages else 0)


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


def import_gguf(
    file: Annotated[Path, typer.Argument(help="A GGUF file; quantised weights become plain numbers.")],
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty.")],
) -> None:
    """Write the model of a GGUF file as a directory that can be trained (needs the package gguf)."""
    from ares.runs import import_gguf as write

    for odd in write(file, out):
        errors.print(f"The chat template of {file}: {odd}", markup=False)
    console.print(f"{out}: the model of {file}, which answers as the file does")
    next_step(f"ares train PROFILE model.path={out}")


def gc(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Names of runs; default: all.", autocompletion=run_names)
    ] = None,
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
    total = collect(policy, runs, dry_run, partial(console.print, markup=False))
    console.print(f"{'would free' if dry_run else 'freed'} {total:,d} bytes")
