"""Terminal view of a running ablation: one line per child, with its step and last value."""

import asyncio
import math
from pathlib import Path
from types import TracebackType

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ares.ablations.definition import Ablation, Child
from ares.reports import console
from ares.store import RunStore

REFRESH_SECONDS = 2.0


class AblationDisplay:
    """The terminal view of an ablation. Without a terminal, a line is printed when a child starts and ends."""

    def __init__(self, ablation: Ablation, children: list[Child], parallel: int, runs: Path) -> None:
        self.ablation = ablation
        self.runs = runs
        self.console = console()
        self.console.print(
            f"[bold]{ablation.name}[/]  {len(ablation.variants)} variants × {len(ablation.seeds)} seeds of "
            f"{escape(ablation.profile)}, {parallel} at a time; logs: {escape(str(runs / ablation.name / 'logs'))}"
        )
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.rows: dict[str, TaskID] = {}
        for child in children:
            label = f"{child.variant}  seed {child.seed}"
            self.rows[child.name] = self.progress.add_task(
                escape(label), total=child.config.train.steps, start=False, note="[dim]waiting[/]"
            )
        self.running: dict[str, Child] = {}

    def __enter__(self) -> "AblationDisplay":
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    async def watch(self) -> None:
        """Follow running children by their run directories until cancelled."""
        while True:
            for child in list(self.running.values()):
                self._show(child)
            await asyncio.sleep(REFRESH_SECONDS)

    def kept(self, child: Child) -> None:
        """Show that a child was finished before."""
        self._show(child)
        self._say(child, "kept, finished before")

    def started(self, child: Child) -> None:
        """Show that a child was started."""
        self.running[child.name] = child
        self.progress.start_task(self.rows[child.name])
        self.progress.update(self.rows[child.name], note="starting")
        self._say(child, "started")

    def finished(self, child: Child) -> None:
        """Show a child's last step."""
        self.running.pop(child.name)
        figure = self._show(child)
        self.progress.stop_task(self.rows[child.name])
        self._say(child, "finished" + (f", {self.ablation.metric} {figure:.3f}" if figure is not None else ""))

    def failed(self, child: Child, error: str) -> None:
        """Show a child's error."""
        self.running.pop(child.name)
        self.progress.stop_task(self.rows[child.name])
        self.progress.update(self.rows[child.name], note="[red]failed[/]")
        self.progress.console.print(f"[red]{escape(child.name)} failed:[/] {escape(error)}")

    def _say(self, child: Child, what: str) -> None:
        if not self.console.is_terminal:
            self.console.print(f"{child.name}: {what}")

    def _show(self, child: Child) -> float | None:
        """Update a child's line to its last commit; returns the compared metric's last value, if any."""
        store = RunStore(self.runs / child.name)
        figure = None
        commits = store.committed_steps()
        for step in reversed(commits):
            metrics = store.read_commit(step).metrics
            if self.ablation.metric in metrics:
                figure = metrics[self.ablation.metric]
                break
        told = f"{self.ablation.metric} {figure:.3f}" if figure is not None and math.isfinite(figure) else ""
        if commits:
            self.progress.update(self.rows[child.name], completed=commits[-1], note=told)
        return figure
