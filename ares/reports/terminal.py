"""Terminal view of a running run: bars, one line a step, a summary at the end.

Without a terminal lines are printed instead of bars, now and then also within a long phase.
"""

import math
import os
import time
from collections import defaultdict
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from algorithms.buckets import BUCKETS
from ares.runs import Run

PACE = 30.0
"""Seconds between two lines of one part when there is no terminal."""
UNITS = {"update": "optimiser steps", "experience": "shards"}


def console() -> Console:
    """Console for lines that people read; silent when logs are JSON (flows/run_log.py)."""
    return Console(
        highlight=False, soft_wrap=True, emoji=False, markup=False, quiet=os.environ.get("ARES_LOG_FORMAT") == "json"
    )


def step_line(run: Run) -> str:
    """The step that was just committed, as a line."""
    commit = run.commit
    assert commit is not None
    m, t = defaultdict(lambda: math.nan, commit.metrics), commit.timings  # one that is not finite is in no commit
    if run.config.learns_from != "samples":
        loss = m["dpo/loss" if run.config.learns_from == "pairs" else "actor/pg_loss"]
        preferred = f"  preferred {m['dpo/accuracy']:.3f}" if run.config.learns_from == "pairs" else ""
        learnt = f"  loss {loss:.4f}{preferred}  tokens {m['response_length/mean']:.1f}" if commit.step else ""
        line = f"step {commit.step:4d}{learnt}"
    elif commit.step == 0:
        shares = " ".join(f"{bucket} {m.get(f'bucket/{bucket}/count', 0):.0f}" for bucket in BUCKETS)
        line = f"bootstrap  acc {m['bootstrap/accuracy']:.3f}  {shares}  τ {m['entropy/hwe_threshold']:.3f}"
    else:
        alphas = "/".join(f"{m[f'bucket/{bucket}/alpha']:.2f}" for bucket in BUCKETS)
        alpha = f"  α {alphas}" if run.config.algorithm.aepo.enabled else ""
        line = (
            f"step {commit.step:4d}  acc {m['reward/sampled_accuracy']:.3f}  reward {m['critic/score/mean']:+.3f}  "
            f"len {m['response_length/mean']:.1f}  H {m['entropy/mean']:.3f}{alpha}  "
            f"KL {m.get('critic/kl', 0.0):.4f}  kept {m['filter/kept_share']:.2f}"
        )
    return f"{line}  {t['timing_s/step']:.1f}s"


def held_out_line(run: Run) -> str:
    """Held-out accuracy after the last step, overall and by set; empty if it was not measured."""
    commit = run.commit
    assert commit is not None
    m = commit.metrics
    if "val/accuracy" not in m:
        return ""
    sets = [f"  {name} {m[key]:.3f}" for name in run.config.data.held_out_names if (key := f"val/{name}/accuracy") in m]
    return f"  held-out {m['val/accuracy']:.3f}{''.join(sets)}"


def bars(console: Console) -> Progress:
    """Progress bars, disabled without a terminal."""
    columns = (TextColumn("[bold]{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn())  # fmt: skip
    return Progress(*columns, console=console, disable=not console.is_terminal)


class Parts:
    """A bar for each running part of a step; without a terminal a line every PACE seconds."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._bars: dict[str, TaskID] = {}
        self._told = time.monotonic()

    def __call__(self, part: str, done: int, total: int) -> None:
        """Show how far a part has come."""
        if not self.progress.disable:
            if part not in self._bars:
                self._bars[part] = self.progress.add_task(f"  {part}")
            self.progress.update(self._bars[part], completed=done, total=total)
            if done == total:
                self.progress.remove_task(self._bars.pop(part))
        elif 0 < done < total and time.monotonic() - self._told >= PACE:
            self.progress.console.print(f"  {part}: {done:,} of {total:,} {UNITS.get(part, 'responses')}")
            self.rest()

    def rest(self) -> None:
        """Print no line for a while, since something was just printed."""
        self._told = time.monotonic()


class Display:
    """The terminal view of one execution of a run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.console = console()
        self.started = time.perf_counter()
        self.first_step = max(run.state.step, 0)
        self.progress = bars(self.console)
        self.parts = run.progress.watch = Parts(self.progress)
        self.bar = self.progress.add_task(run.store.name, total=run.config.train.steps, completed=self.first_step)

    def __enter__(self) -> "Display":
        config = self.run.config
        problems, held_out = len(self.run.train_set), len(self.run.validation_set or ())
        what, a_step = "problems", f"{config.rollout.prompts} × {config.rollout.n} samples a step"
        if config.learns_from != "samples":
            what, a_step = config.learns_from, f"{config.rollout.prompts} a step"
        told = f"{held_out or 'none'} held out, {a_step}, engine {config.rollout.engine}"
        about = f"  {config.model.path}  {problems} {what}, {told}"
        self.console.print(Text.assemble((self.run.store.name, "bold"), about))
        if self.run.adapted is not None:
            self.console.print(self.run.adapted)
        if self.run.commit is not None:
            self.console.print(f"resuming after step {self.run.state.step}", style="dim")
        elif held_out or config.learns_from == "samples":
            begins = "one pass over the train set" if config.learns_from == "samples" else "held-out problems"
            self.console.print(f"bootstrap: {begins} …", style="dim")
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def committed(self) -> None:
        """Show the step that was just committed."""
        assert self.run.commit is not None
        self.progress.console.print(Text.assemble(step_line(self.run), (held_out_line(self.run), "bold green")))
        self.parts.rest()
        self.progress.update(self.bar, completed=self.run.commit.step)

    def summary(self) -> dict[str, Any]:
        """Print and return how the run went."""
        evaluations = self.run.state.evaluations
        seconds = time.perf_counter() - self.started
        steps = self.run.state.step - self.first_step
        if len(evaluations) > 1:
            first, last = evaluations[0], evaluations[-1]
            change = f"held-out accuracy {first.accuracy:.3f} → {last.accuracy:.3f}"
            told = f" ({last.accuracy - first.accuracy:+.3f}) in {self.run.state.step} steps"
            self.console.print(Text.assemble((change, "bold"), told))
        self.console.print(f"{steps} steps in {seconds:.0f} s")
        return {
            "run": self.run.store.name,
            "step": self.run.state.step,
            "evaluations": [vars(evaluation).copy() for evaluation in evaluations],
        }
