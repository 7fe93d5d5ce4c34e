"""The picture of a run: accuracy, controllers and entropy over its steps, as progress.png in the run directory."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from algorithms.buckets import BUCKETS
from ares.store import Commit, RunStore

COLORS = {"easy": "#2a9d8f", "medium": "#e9a23b", "hard": "#c8553d"}


def plot_progress(store: RunStore) -> Path:
    """Draw every committed step of a run; returns the file."""
    commits = [store.read_commit(step) for step in store.committed_steps()]
    figure, axes = plt.subplots(2, 3, figsize=(13, 6.4), layout="constrained")
    _accuracy(axes[0, 0], commits)
    _bucket_panel(axes[0, 1], commits, "alpha", "entropy coefficient α", BUCKETS)
    _bucket_panel(axes[0, 2], commits, "hwe", "HWE tokens (line) and target (dashed)", BUCKETS, dashed="target")
    _bucket_panel(axes[1, 0], commits, "kl", "KL to the reference (nats a token)", BUCKETS)
    _bucket_panel(axes[1, 1], commits, "beta", "KL coefficient β", BUCKETS)
    _threshold(axes[1, 2], commits)
    for axis in axes.flat:
        axis.grid(alpha=0.25)
        axis.set_xlabel("step")
    figure.suptitle(store.name)
    target = store.directory / "progress.png"
    figure.savefig(target, dpi=110)
    plt.close(figure)
    return target


def _series(commits: list[Commit], name: str) -> tuple[list[int], list[float]]:
    points = [(commit.step, commit.metrics[name]) for commit in commits if name in commit.metrics]
    return [step for step, _ in points], [value for _, value in points]


def _accuracy(axis: Axes, commits: list[Commit]) -> None:
    axis.plot(*_series(commits, "reward/sampled_accuracy"), color="#9aa5b1", lw=1, label="train, all sampled")
    axis.plot(*_series(commits, "val/accuracy"), color="#1d3557", marker="o", lw=2, label="held-out")
    axis.set_title("accuracy")
    axis.legend(fontsize=8)


def _bucket_panel(
    axis: Axes, commits: list[Commit], key: str, title: str, buckets: tuple[str, ...], dashed: str | None = None
) -> None:
    for bucket in buckets:
        axis.plot(*_series(commits, f"bucket/{bucket}/{key}"), color=COLORS[bucket], lw=1.2, label=bucket)
        if dashed:
            axis.plot(*_series(commits, f"bucket/{bucket}/{dashed}"), color=COLORS[bucket], ls="--", lw=1)
    axis.set_title(title)
    axis.legend(fontsize=8)


def _threshold(axis: Axes, commits: list[Commit]) -> None:
    axis.plot(*_series(commits, "entropy/hwe_threshold"), color="#6d597a", lw=1.5, label="HWE threshold τ")
    axis.plot(*_series(commits, "entropy/mean"), color="#355070", lw=1, label="mean token entropy")
    axis.set_title("entropy (nats)")
    axis.legend(fontsize=8)
