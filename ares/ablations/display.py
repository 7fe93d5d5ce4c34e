"""Terminal view of a running ablation: one line per child, with its step and last value."""

import asyncio
import math

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ares.ablations.definition import Ablation, Child
from ares.reports import console
from ares.store import RunStore, runs_directory

REFRESH_SECONDS = 2.0


class AblationDisplay:
    """The terminal view of an ablation. Without a terminal, a line is printed when a child starts and ends."""

    def __init__(self, ablation: Ablation, children: list[Child], parallel: int) -> None:
        self._metric = ablation.metric
        self._console = console()
        self._console.print(
            f"[bold]{ablation.name}[/]  {len(ablation.variants)} variants × {len(ablation.seeds)} seeds of "
            f"{escape(ablation.profile)}, {parallel} at a time; "
            f"logs: {escape(str(runs_directory() / ablation.name / 'logs'))}"
        )
        self.progress = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"), console=self._console, disable=not self._console.is_terminal,
        )  # fmt: skip
        self._lines: dict[str, TaskID] = {}
        for child in children:
            label, steps = escape(f"{child.variant}  seed {child.seed}"), child.config.train.steps
            self._lines[child.name] = self.progress.add_task(label, total=steps, start=False, note="[dim]waiting[/]")

    async def follow(self, child: Child) -> None:
        """Show a running child's last commit until cancelled."""
        self.progress.start_task(self._lines[child.name])
        self._tell(child, "started")
        try:
            while True:
                self._show(child)
                await asyncio.sleep(REFRESH_SECONDS)
        finally:
            self.progress.stop_task(self._lines[child.name])

    def keep(self, child: Child) -> None:
        """Show that a child was finished before."""
        self._show(child)
        self._tell(child, "kept, finished before")

    def finish(self, child: Child) -> None:
        """Show a child's last step."""
        self._tell(child, f"finished, {self._show(child)}".removesuffix(", "))

    def fail(self, child: Child, error: str) -> None:
        """Show a child's error."""
        self.progress.update(self._lines[child.name], note="[red]failed[/]")
        self._console.print(f"[red]{escape(child.name)} failed:[/] {escape(error)}")

    def _tell(self, child: Child, what: str) -> None:
        if not self._console.is_terminal:
            self._console.print(f"{child.name}: {what}")

    def _show(self, child: Child) -> str:
        """Update a child's line to its last commit; returns the compared metric's last value in words, if any."""
        store = RunStore(runs_directory() / child.name)
        commits, value = store.committed_steps(), math.nan
        for step in reversed(commits):
            if (value := store.read_commit(step).metrics.get(self._metric, math.nan)) == value:
                break
        told = f"{self._metric} {value:.3f}" if math.isfinite(value) else ""
        if commits:
            self.progress.update(self._lines[child.name], completed=commits[-1], note=told)
        return told
