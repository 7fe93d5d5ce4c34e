"""The flow `ares-ablate`: trains every child of an ablation, as many at a time as cores or GPUs allow.

Covered: which children run and when, whose bootstrap they share, failures of a child and the end of this process. Not
covered: the flow's parameters (flows/deployed.py), the file (ares/ablations/definition.py), a child's training
(flows/train.py), the comparison (ares/ablations/report.py). A child is `ares train` in a process of its own, since Ray
is one per process. Its run directory says whether it is finished: finished children are not trained again, and others
resume from their last commit.
"""

import asyncio
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.settings import PREFECT_API_URL
from rich.console import Console

from ares.ablations import (
    Ablation,
    Child,
    ParentRun,
    check_fixed,
    check_same_problems,
    complete_entry,
    conclude,
    list_children,
    read_ablation,
    read_rows,
    write_report,
)
from ares.config import Override
from ares.data import Problems
from ares.errors import UserError
from ares.reports import bars, console
from ares.runs import Run, check_unchanged, drawn_identity, share_bootstrap
from ares.store import RunStore, StoreError, read_config, run_status, runs_directory
from ares.workers import runs_that_fit
from flows.prefect_client import run_until_suspended
from flows.servers import service

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between looks at the running children's commits, for the display and for a bootstrap that another child waits for."""


@dataclass
class Plan:
    """An ablation that has been read and checked."""

    ablation: Ablation
    children: list[Child]
    extra: list[Override]
    parallel: int
    drawn: dict[str, str]
    """By child: the identity of its bootstrap's draws. Children with the same one share a bootstrap."""

    @property
    def folder(self) -> Path:
        """Where its logs and its report lie."""
        return runs_directory() / self.ablation.name


def prepare(
    ablation: str, overrides: list[Override] | None = None, name: str | None = None, parallel: int | None = None
) -> Plan:
    """Read and check an ablation and the input of every variant before anything is started.

    Raises ConfigError, DataError or StoreError.
    """
    definition, source = read_ablation(ablation, name)
    runs, children = runs_directory(), list_children(definition, source, overrides)
    if RunStore(runs / definition.name).exists():
        raise StoreError(f"{runs / definition.name} is a training run: give the ablation another name with --name")
    check_fixed(definition, runs / definition.name)
    digests, held_out = dict[str, dict[str, Any]](), dict[str, Problems | None]()
    for child in children[: len(definition.variants)]:  # seeds read the same data and weights
        run, digests[child.variant] = Run.check(child.config, child.name, runs, may_round=True)
        held_out[child.variant] = run.validation_set
    check_same_problems(held_out)
    for child in children:
        if (store := _store(child)).exists():
            # Files of a set that grows may have come since.
            known = store.read_run()["digests"] if child.config.data.grows else digests[child.variant]
            check_unchanged(store, child.config, known, may_round=True)
    drawn = {child.name: drawn_identity(child.config, digests[child.variant]) for child in children}
    at_once = parallel or runs_that_fit([child.config for child in children])
    return Plan(definition, children, list(overrides or []), at_once, drawn)


async def run_ablation(plan: Plan) -> dict[str, Any]:
    """Inside a flow run, train every child to its last step and write the report; returns the conclusion and its path.

    A Suspend ends the children at once. If a child fails, the others continue, and UserError is raised at the end.
    """
    return await run_until_suspended(_train_and_compare(plan))


async def _train_and_compare(plan: Plan) -> dict[str, Any]:
    terminal = console()
    with RunStore(plan.folder).lock():
        parent = ParentRun(plan.ablation, plan.children[0].config, plan.folder, plan.extra)
        status, files = "KILLED", []
        try:
            failed = await _train_children(plan, parent.id, terminal)
            rows = read_rows(plan.ablation.name, runs_directory())
            files, conclusion = write_report(rows, plan.folder / "report.html"), conclude(rows)
            terminal.print(f"\n{conclusion}\nreport: {files[0]}", markup=False)
            status = "FAILED" if failed else "FINISHED"
            for child in plan.children:
                if (store := _store(child)).committed_steps():
                    complete_entry(read_config(store), store, _is_finished(child))
            write_report(read_rows(plan.ablation.name, runs_directory()), files[0])  # it links their entries in MLflow
        finally:
            parent.close(status, files)
    logger.info("%s; report: %s%s", conclusion, files[0], f", {parent.page}/artifacts" if parent.page else "")
    if failed:
        first, error = next(iter(failed.items()))
        raise UserError(f"{len(failed)} of {len(plan.children)} children failed; {first}: {error}")
    return {"conclusion": conclusion, "report": str(files[0])}


async def _train_children(plan: Plan, parent_run: str, terminal: Console) -> dict[str, str]:
    """Train the unfinished children, in order and as many at a time as fit; returns the error of each that failed."""
    logs, failed = plan.folder / "logs", dict[str, str]()
    logs.mkdir(exist_ok=True)
    terminal.print(f"{len(plan.children)} children, {plan.parallel} at a time; logs: {logs}", markup=False)

    async def train(child: Child) -> None:
        tell(child, "started")
        try:
            _take_bootstrap(plan, child)
            await train_child(child, parent_run, logs / f"{child.name}.log")
            tell(child, "finished")
        except UserError as error:
            tell(child, f"failed: {error}", logging.WARNING)
            failed[child.name] = str(error)

    def tell(child: Child, what: str, level: int = logging.INFO) -> None:
        terminal.print(f"{child.name}: {what}", markup=False)
        logger.log(level, "%s: %s", child.name, what)

    waiting = [child for child in plan.children if not _is_finished(child)]
    running: dict[asyncio.Task[None], Child] = {}
    with bars(terminal) as progress:
        shown = {child.name: progress.add_task(child.name, total=child.config.train.steps) for child in waiting}
        for child in plan.children:
            if child not in waiting:
                tell(child, "kept, finished before")
        try:
            async with asyncio.TaskGroup() as group:
                while waiting or running:
                    drawing = {plan.drawn[child.name] for child in running.values() if not _store(child).has_commits()}
                    # The first child whose bootstrap is not being drawn by a running one.
                    following = next((child for child in waiting if plan.drawn[child.name] not in drawing), None)
                    if len(running) < plan.parallel and following is not None:
                        waiting.remove(following)
                        running[group.create_task(train(following))] = following
                        continue
                    await asyncio.wait(running, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                    for child in running.values():
                        progress.update(shown[child.name], completed=max(_store(child).committed_steps(), default=0))
                    running = {task: child for task, child in running.items() if not task.done()}
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
    return {child.name: failed[child.name] for child in plan.children if child.name in failed}


def _take_bootstrap(plan: Plan, child: Child) -> None:
    """Give a new child the bootstrap that another one has drawn, if it is the same."""
    if _store(child).exists():
        return
    same = [other for other in plan.children if plan.drawn[other.name] == plan.drawn[child.name]]
    donor = next((other for other in same if _store(other).committed_steps()), None)
    if donor is not None:
        share_bootstrap(donor.name, child.name, runs_directory())


@task(name="child", task_run_name="{child.name}", cache_policy=NO_CACHE, persist_result=False)
async def train_child(child: Child, parent_run: str, log: Path) -> None:
    """Train one child in a process of its own, whose output goes to `log`. Raises UserError with its last line.

    If this process is killed, the child ends too, and resumes from its last commit, with the rounding that it has.
    """
    begin = ["resume", child.name] if _store(child).exists() else ["train", child.profile, "--run", child.name]
    tags = {"ares.ablation": child.config.tracking.experiment, "ares.variant": child.variant,
            "ares.seed": str(child.seed)}  # fmt: skip
    settings = [f"tracking.parent_run={json.dumps(parent_run)}", f"tracking.tags={json.dumps(tags)}",
                f"train.steps={child.config.train.steps}"]  # fmt: skip
    # All share one API: this process's own, or the user's server.
    api = PREFECT_API_URL.value()
    with log.open("ab") as output:
        process = service.start(
            "flows.cli", *begin, *child.overrides, *settings,
            settings={"PREFECT_API_URL": api} if api else {}, output=output,
        )  # fmt: skip
    try:
        while (code := process.poll()) is None:
            await asyncio.sleep(LOOK_SECONDS / 4)
    finally:
        await asyncio.to_thread(service.end, [process])
    if code != 0 or not _is_finished(child):
        said = log.read_text(encoding="utf-8", errors="replace").strip() or "it said nothing"
        raise UserError(f"{said.splitlines()[-1].strip()} (exit code {code}, {log})")


def _store(child: Child) -> RunStore:
    return RunStore(runs_directory() / child.name)


def _is_finished(child: Child) -> bool:
    """Whether a child has nothing left to do; its run.json may hold fewer steps than are asked for now."""
    if not _store(child).exists():
        return False
    status = run_status(child.name)
    return bool(child.config.train.ends(status["step"], status["tokens"]))
