"""`ares history`, `rescore`, `replay` and `bisect`: questions that a run's directory answers."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.command import Overrides, RunName, console, next_step, show_table

if TYPE_CHECKING:
    from rich.tree import Tree

    from ares.history import Member


def history(run: RunName) -> None:
    """A run and its relatives as a tree: who was forked from whom, what differs, how each ended."""
    from rich.tree import Tree

    from ares.history import family
    from ares.store import runs_directory

    oldest = family(run, runs_directory())
    tree = Tree(_described(oldest, run))
    _grow(tree, oldest, run)
    console.print(tree)
    if oldest.children:
        next_step(f"ares diff {oldest.name} {oldest.children[0].name}")


def _grow(tree: "Tree", member: "Member", asked: str) -> None:
    for child in member.children:
        _grow(tree.add(_described(child, asked)), child, asked)


def _described(member: "Member", asked: str) -> str:
    """A run as lines of the tree."""
    from rich.markup import escape

    fork, lines = member.fork, []
    if fork is not None:
        place = f"forked {f'after phase {fork.phase} of' if fork.phase else 'after'} step {fork.at}"
        lines = [f"{place}: {fork.why}" if fork.why else place, *(member.settings or ["the same settings"])]
    name = f"[bold]{member.name}[/]" if member.name == asked else member.name
    told = [f"[dim]{escape(line)}[/]" for line in [*lines, *member.events]]
    return "\n".join([f"{name}  {escape(member.ended)}", *told])


def rescore(
    run: RunName,
    overrides: Overrides = None,
    steps: Annotated[str, typer.Option(help="Which steps, as 1:60; 0 is the bootstrap.")] = "0:",
) -> None:
    """Judge a run's stored samples again, by another reward or a repaired verifier: what changes, and from where on."""
    from ares.config import ConfigError
    from ares.history import Judged, Rescore
    from ares.reports import log_rescore
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
        log_rescore(again.run.store, again.config, again.folder, [one.model_dump() for one in judged])
    columns = ["step", "samples", "changed", "raised", "lowered", "lost", "ranks", "revived", "dropped", "signs"]
    changed = [one for one in judged if one.changed or one.differs]
    if not changed:
        console.print(f"{run}: of {sum(one.samples for one in judged)} samples, none has another verdict", markup=False)
        return
    cells = [[str(getattr(one, name)) for name in columns] for one in changed]
    show_table(f"{run}, judged again", columns, cells)
    console.print(f"verdicts: {again.run.store.directory / again.folder}; ares browse {run} shows them", markup=False)
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
