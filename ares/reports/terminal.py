"""What a person sees of a running run: a progress bar, one line a step, a summary at the end."""

import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from algorithms.buckets import BUCKETS
from ares.runs import Run


class Display:
    """The terminal view of one execution of a run. Without a terminal the lines are printed and the bar is not."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.console = Console(highlight=False, soft_wrap=True, emoji=False)
        self.started = time.perf_counter()
        self.first_step = max(run.state.step, 0)
        self.progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self.bar = self.progress.add_task(run.store.name, total=run.config.train.steps, completed=self.first_step)

    def __enter__(self) -> "Display":
        config = self.run.config
        problems, held_out = len(self.run.train_set), len(self.run.validation_set or ())
        self.console.print(
            f"[bold]{self.run.store.name}[/]  {config.model.path}  {problems} problems, {held_out or 'none'} held out, "
            f"{config.rollout.prompts} × {config.rollout.n} samples a step, engine {config.rollout.engine}",
            soft_wrap=True,
        )
        if self.run.adapted is not None:
            self.console.print(str(self.run.adapted), markup=False)
        if self.run.commit is None:
            self.console.print("bootstrap: one pass over the train set …", style="dim")
        else:
            self.console.print(f"resuming after step {self.run.state.step}", style="dim")
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def committed(self) -> None:
        """Show the step that was just committed."""
        commit = self.run.commit
        assert commit is not None
        m, t = commit.metrics, commit.timings
        if commit.step == 0:
            shares = " ".join(f"{bucket} {m.get(f'bucket/{bucket}/count', 0):.0f}" for bucket in BUCKETS)
            line = f"bootstrap  acc {m['bootstrap/accuracy']:.3f}  {shares}  τ {m['entropy/hwe_threshold']:.3f}"
        else:
            alpha = "/".join(f"{m[f'bucket/{bucket}/alpha']:.2f}" for bucket in BUCKETS)
            line = (
                f"step {commit.step:4d}  acc {m['reward/sampled_accuracy']:.3f}  reward {m['critic/score/mean']:+.3f}  "
                f"len {m['response_length/mean']:.1f}  H {m['entropy/mean']:.3f}  α {alpha}  "
                f"KL {m.get('critic/kl', 0.0):.4f}  kept {m['filter/kept_share']:.2f}"
            )
        line += f"  {t['timing_s/step']:.1f}s"
        if "val/accuracy" in m:
            sets = [f"  {name} {m[key]:.3f}" for name in self.run.config.data.held_out_names
                    if (key := f"val/{name}/accuracy") in m]  # fmt: skip
            line += f"  [bold green]held-out {m['val/accuracy']:.3f}{''.join(sets)}[/]"
        self.progress.console.print(line)
        self.progress.update(self.bar, completed=commit.step)

    def summary(self) -> dict[str, Any]:
        """Print and return how the run went."""
        evaluations = self.run.state.evaluations
        seconds = time.perf_counter() - self.started
        steps = self.run.state.step - self.first_step
        if len(evaluations) > 1:
            first, last = evaluations[0], evaluations[-1]
            self.console.print(
                f"[bold]held-out accuracy {first.accuracy:.3f} → {last.accuracy:.3f}[/] "
                f"({last.accuracy - first.accuracy:+.3f}) in {self.run.state.step} steps",
                soft_wrap=True,
            )
        self.console.print(
            f"{steps} steps in {seconds:.0f} s; plot: {self.run.store.directory / 'progress.png'}",
            soft_wrap=True,
        )
        return {
            "run": self.run.store.name,
            "step": self.run.state.step,
            "evaluations": [vars(evaluation).copy() for evaluation in evaluations],
        }
