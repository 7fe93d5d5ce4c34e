"""`ares browse`, `history`, `rescore`, `replay` and `bisect`: questions that a run's directory answers."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ares.errors import UserError
from flows.cli.command import Overrides, RunName, RunNames, console, errors, next_step, show_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.text import Text

    from ares.history import Member

WORST = 5
"""Samples that `ares replay` lists."""
BY_STEP = ("actor/pg_loss", "actor/grad_norm", "actor/ppo_kl")
"""What `ares replay` tells of each optimiser step."""


def browse(
    runs: RunNames = None,
    out: Annotated[Path | None, typer.Option(help="Write the page as a folder, new or empty, and stop.")] = None,
    port: Annotated[int, typer.Option(min=0, help="0: any that is free.")] = 0,
) -> None:
    """A page over all steps of runs: their tree, curves, samples and tokens. It is served to this machine alone."""
    from ares.browse import serve, write_folder
    from ares.store import run_store, runs_directory, runs_in

    stores = [run_store(name) for name in runs] if runs else runs_in(runs_directory())
    for store in stores if runs else ():
        store.read_run()
    if out is not None:
        write_folder(stores, out, lambda line: console.print(line, style="dim"))
        console.print(f"{out / 'index.html'}: open it in a browser")
        return
    serve(stores, port, lambda address: console.print(f"{address} (Ctrl-C ends it)"))


def history(run: RunName) -> None:
    """A run and its relatives as a tree: who was forked from whom, what differs, how each ended."""
    from rich.tree import Tree

    from ares.history import Member, family
    from ares.store import runs_directory

    def grow(tree: Tree, member: Member) -> Tree:
        for child in member.children:
            grow(tree.add(_described(child, run)), child)
        return tree

    oldest = family(run, runs_directory())
    console.print(grow(Tree(_described(oldest, run)), oldest))
    if oldest.children:
        next_step(f"ares diff {oldest.name} {oldest.children[0].name}")


def _described(member: "Member", asked: str) -> "Text":
    """A run as lines of the tree."""
    from rich.text import Text

    fork, lines = member.fork, []
    if fork is not None:
        place = f"forked {f'after phase {fork.phase} of' if fork.phase else 'after'} step {fork.at}"
        lines = [f"{place}: {fork.why}" if fork.why else place, *(member.settings or ["the same settings"])]
    told = "".join(f"\n{line}" for line in [*lines, *member.events])
    style = "bold" if member.name == asked else ""
    return Text.assemble((member.name, style), f"  {member.ended}", (told, "dim"))


def rescore(
    run: RunName,
    overrides: Overrides = None,
    steps: Annotated[str, typer.Option(help="Which steps, as 1:60; 0 is the bootstrap.")] = "0:",
) -> None:
    """Judge a run's stored samples again, by another reward or a repaired verifier: what changes, and from where on."""
    from ares.history import Judged, Rescore
    from ares.store import runs_directory

    found = re.fullmatch(r"(\d+):(\d*)", steps)
    if found is None:
        raise UserError(f"--steps {steps}: from and to, as 1:60, or 1: for all from step 1 on")
    judged: list[Judged] = []
    with Rescore(run, overrides or [], runs_directory()) as again:
        if again.run.fork is not None:
            console.print(f"steps 0 to {again.shared} are of {again.run.fork.run}", style="dim")
        asked = int(found[1]), int(found[2] or 10**6)
        console.print(again.cost(*asked), style="dim")
        for one in again.steps(*asked):
            judged.append(one)
            console.print(f"step {one.step}: {one.samples} samples, {one.changed} with another verdict", style="dim")
        if again.run.store.read_run().get("mlflow_run_id") is not None:
            from ares.reports import log_rescore  # which loads MLflow

            log_rescore(again.run.store, again.config, again.folder, [one.model_dump() for one in judged])
    columns = ["step", "samples", "changed", "raised", "lowered", "lost", "ranks", "revived", "dropped", "signs"]
    changed = [one for one in judged if one.changed or one.differs]
    if not changed:
        console.print(f"{run}: of {sum(one.samples for one in judged)} samples, none has another verdict")
        return
    cells = [[str(getattr(one, name)) for name in columns] for one in changed]
    show_table(f"{run}, judged again", columns, cells)
    console.print(f"verdicts: {again.run.store.directory / again.folder}; ares browse {run} shows them")
    differing = [one.step for one in judged if one.differs]
    if 0 in differing:
        console.print("the bootstrap's difficulties differ")
    if not any(differing):
        console.print("the batches of these steps would have been the same")
        return
    first = next(step for step in differing if step)
    console.print(f"training would have gone another way from step {first} on")
    next_step(_fork_before(first, run, overrides, "rescored"))


def replay(
    run: RunName,
    step: Annotated[int, typer.Option(help="The step whose update is made again.")],
    overrides: Overrides = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Stop at the first number that is not finite: its sample and token.")
    ] = False,
) -> None:
    """One step's update again, in this process: as it was, and as other settings would have made it."""
    from ares.history import replay as make_again
    from ares.store import runs_directory

    def tell(cost: str) -> None:
        console.print(cost, style="dim")

    with make_again(run, step, overrides or [], runs_directory(), tell) as again:
        if debug:
            found = again.find_not_finite()
            console.print(f"not finite: {found}" if found else "every number of this update is finite")
            return
        updates, table = again.updates(), again.table
    figures: list[dict[str, float | None]] = [
        {"change of the weights": update.moved, "cosine with the run's": update.cosine,
         "log-prob where advantage > 0": update.raised, "log-prob where advantage < 0": update.lowered,
         "log-prob of right held-out answers": update.held_out_right,
         "log-prob of wrong held-out answers": update.held_out_wrong, **update.metrics}
        for update in updates
    ]  # fmt: skip
    titles = ["", f"step {step}", *[" ".join(overrides or [])][: len(updates) - 1]]
    names = list(dict.fromkeys(name for figure in figures for name in figure))
    cells = [[name, *_cells(figure.get(name) for figure in figures)] for name in names]
    show_table(f"{run}, the update of step {step}", titles, cells)
    cells = [
        [f"{number + 1} {name}", *_cells(update.steps[number].get(name) for update in updates)]
        for number in range(min(len(update.steps) for update in updates))
        for name in BY_STEP
    ]
    show_table("each optimiser step", titles, cells)
    worst = sorted(range(len(table)), key=lambda row: -updates[-1].losses[row])[:WORST]
    cells = [
        [*(str(table[name].iloc[row]) for name in table), *_cells(update.losses[row] for update in updates)]
        for row in worst
    ]
    show_table("the highest losses after it", ["id", "sample", "accuracy", *titles[1:]], cells)
    next_step(_fork_before(step, run, overrides, "again"))


def _fork_before(step: int, run: str, overrides: list[str] | None, ending: str) -> str:
    """The command that takes a step with other settings."""
    changed = [*(overrides or []), "--run", f"{run}-{ending}"]
    return shlex.join(["ares", "fork", run, "--at", str(step), "--phase", "rollout", *changed])


def _cells(values: "Iterable[float | None]") -> list[str]:
    return ["" if value is None else f"{value:+.6g}" for value in values]


def bisect(
    run: RunName,
    drop: Annotated[str, typer.Option(help="Between which steps it fell, as 41:60.")],
    metric: Annotated[str, typer.Option(help="val/accuracy, or val/NAME/accuracy of a held-out set.")] = "val/accuracy",
    n: Annotated[int, typer.Option(min=1, help="Samples per problem; four times as many where that is not clear.")] = 8,
) -> None:
    """Which step made a held-out accuracy fall, and which of its groups did. The same command goes on where it was."""
    import asyncio
    from contextlib import closing

    from ares.history import Probe, find_fall
    from ares.reports import Parts, bars
    from ares.store import runs_directory
    from flows.bisect import Bisection

    found = re.fullmatch(r"(\d+):(\d+)", drop)
    if found is None:
        raise UserError(f"--drop {drop}: from and to, as 41:60")

    def tell(probe: Probe) -> None:
        low, high = probe.fallen.low or 0.0, probe.fallen.high or 0.0
        verdict = ("fallen" if low > 0 else "not fallen") if probe.is_clear else "not clear"
        other = f"step {search.first}" if probe.step == search.last else "the middle"
        console.print(
            f"step {probe.step}: {probe.accuracy:.3f}, {probe.samples} samples; against {other} "
            f"{-probe.fallen.mean:+.3f} ({-high:+.3f} to {-low:+.3f}): {verdict}",
        )  # fmt: skip

    with Bisection(run, metric, int(found[1]), int(found[2]), n, runs_directory()) as search, bars(errors) as progress:
        search.watch = Parts(progress)
        console.print(search.cost(), style="dim")
        fall = asyncio.run(find_fall(search.first, search.last, n, search.measure, tell))
        if fall is None:
            console.print(f"{metric} is not clearly lower after step {search.last} than after step {search.first}")
            return
        size = f"{fall.size.mean:.3f} ({fall.size.low:.3f} to {fall.size.high:.3f})"
        if fall.after - fall.before > 1:
            console.print(f"it fell by {size} from step {fall.before} to {fall.after}; where between is not clear")
            next_step(f"ares bisect {run} --drop {fall.before}:{fall.after} --n {fall.probes[-1].samples * 4}")
            return
        console.print(f"step {fall.after} made it fall by {size}", style="bold")
        console.print(search.cost_of_groups(fall.after), style="dim")
        task, groups = progress.add_task("  groups"), []
        with closing(search.groups(fall.after, fall.probes[-1].samples)) as left_out:
            for group in left_out:
                groups.append(group)
                progress.update(task, completed=len(groups))
    groups.sort(key=lambda group: -group.effect.mean)
    cells = [
        [group.id, f"{group.effect.mean:+.4f}", f"{group.effect.low or 0.0:+.4f} to {group.effect.high or 0.0:+.4f}",
         f"{group.samples['accuracy'].mean():.2f}"]
        for group in groups
    ]  # fmt: skip
    show_table("held-out accuracy without a group (estimate)", ["group", "change", "95 %", "its accuracy"], cells)
    first = groups[0]
    if (first.effect.low or 0.0) <= 0:
        console.print("no group of this step clearly did harm; the first:")
    console.print(f"{first.id}: {first.samples['prompt'].iloc[0]}")
    for _, row in first.samples.iterrows():
        console.print(f"  {row['accuracy']:.2g}  {row['response']}")
    next_step(f"ares inspect {run} --step {fall.after} --id {shlex.quote(first.id)} --sample 0")
