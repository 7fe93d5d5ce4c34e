"""The picture of a run: accuracy, controllers and entropy over its steps, as progress.png in the run directory."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from algorithms.buckets import BUCKETS
from ares.store import RunStore

COLORS = {"easy": "#2a9d8f", "medium": "#e9a23b", "hard": "#c8553d"}


def _of_buckets(name: str, style: str = "-") -> list[tuple[str, str, str, str]]:
    """A line for each bucket; dashed ones are not in the legend."""
    hidden = "_" if style == "--" else ""
    return [(f"bucket/{bucket}/{name}", COLORS[bucket], style, f"{hidden}{bucket}") for bucket in BUCKETS]


PANELS = {
    "accuracy": [
        ("reward/sampled_accuracy", "#9aa5b1", "-", "train, all sampled"),
        ("val/accuracy", "#1d3557", "o-", "held-out"),
    ],
    "entropy coefficient α": _of_buckets("alpha"),
    "HWE tokens (line) and target (dashed)": [*_of_buckets("hwe"), *_of_buckets("target", "--")],
    "KL to the reference (nats a token)": _of_buckets("kl"),
    "KL coefficient β": _of_buckets("beta"),
    "entropy (nats)": [
        ("entropy/hwe_threshold", "#6d597a", "-", "HWE threshold τ"),
        ("entropy/mean", "#355070", "-", "mean token entropy"),
    ],
}
"""By title the lines of each panel: metric, colour, style, label."""


def plot_progress(store: RunStore) -> Path:
    """Draw every committed step of a run; returns the file."""
    commits = [store.read_commit(step) for step in store.committed_steps()]
    figure, axes = plt.subplots(2, 3, figsize=(13, 6.4), layout="constrained")
    for axis, (title, lines) in zip(axes.flat, PANELS.items(), strict=True):
        for metric, color, style, label in lines:
            points = [(commit.step, commit.metrics[metric]) for commit in commits if metric in commit.metrics]
            axis.plot([step for step, _ in points], [value for _, value in points], style, color=color, label=label)
        axis.set_title(title)
        axis.set_xlabel("step")
        axis.grid(alpha=0.25)
        axis.legend(fontsize=8)
    figure.suptitle(store.name)
    target = store.directory / "progress.png"
    figure.savefig(target, dpi=110)
    plt.close(figure)
    return target
