"""The pictures of an ablation's report: differences from the baseline, learning curves with seed bands, shares of
verdicts as stacked areas.

Covered: self-contained SVG text. A curve is the mean over the seeds of a variant at each step; its band reaches from
the lowest to the highest seed: a range, not an interval. Not covered: which metrics are shown
(ares/ablations/report.py).
"""

import io
from collections.abc import Callable
from typing import TypeVar

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ares.ablations.besides import widest
from ares.ablations.measures import ERRORS
from ares.ablations.paired import Difference
from ares.ablations.rows import ChildRows, Row

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b", "#8c510a")
"""Okabe and Ito's colours, told apart with any colour vision; more variants than colours repeat them, dashed."""
ERROR_COLORS = {
    "accepted": "#2a9d8f", "wrong_answer": "#e9c46a", "runtime_error": "#f4a261", "timeout": "#b56576",
    "memory": "#6d597a", "output_limit": "#355070", "syntax_error": "#c1440e", "truncated": "#9aa5b1",
}  # fmt: skip
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8a94a0",
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "grid.color": "#e3e7eb",
    "svg.fonttype": "path", "svg.hashsalt": "ares", "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
}  # fmt: skip
CURVES = (
    ("reward/sampled_accuracy", "training accuracy, all samples"),
    ("code/pass_ratio", "share of tests passed, training"),
    ("val/pass_ratio", "share of tests passed, held out"),
    ("filter/kept_share", "groups kept by the filter"),
    ("code/cost/tokens_per_solved", "tokens per solved problem"),
    ("code/error/syntax_error", "syntax errors"),
    ("response_length/mean", "response length (tokens)"),
    ("entropy/mean", "token entropy (nats)"),
    ("critic/kl", "KL to the reference (nats a token)"),
)
"""Curves beside that of the compared metric, where they were logged."""
T = TypeVar("T")
Series = dict[str, list[ChildRows]]
"""The children of each variant, in order."""


def differences(baseline: str, order: list[str], panels: list[tuple[str, dict[str, Difference], float]]) -> str:
    """Each variant's difference from the baseline, one panel per (title, differences, margin or 0); returns SVG.

    A small dot per seed, the mean with its 95 % interval, and a dashed line at the margin. `order`: all variants, from
    the top; a variant keeps its colour of the curves.
    """
    shown = [name for name in order if any(name in of for _, of, _ in panels)]

    def draw(axis: Axes, panel: tuple[str, dict[str, Difference], float]) -> None:
        title, of, margin = panel
        for name, difference in of.items():
            height, color = -shown.index(name), PALETTE[order.index(name) % len(PALETTE)]
            axis.plot(difference.by_seed, [height - 0.22] * len(difference.by_seed), "o", color=color, ms=3, alpha=0.45)
            low, high = widest(difference)
            if low is not None and high is not None:
                axis.plot([low, high], [height, height], color=color, lw=2.2, solid_capstyle="butt")
            axis.plot([difference.mean], [height], "D", color=color, ms=5)
        axis.axvline(0, color="#8a94a0", lw=1)
        if margin:
            axis.axvline(-margin, color="#8a94a0", lw=1, ls="--")
        axis.set_yticks([-place for place in range(len(shown))], shown)
        axis.set_ylim(0.5 - len(shown), 0.5)
        axis.set_title(title)
        axis.set_xlabel(f"difference from {baseline}")
        axis.grid(True, axis="x")

    return _svg(_panels(panels, draw, 2, 0.7 + 0.26 * len(shown)))


def curves(variants: Series, panels: list[tuple[str, str, int]], columns: int, height: float, legend: bool) -> str:
    """One panel a metric, given as (metric, title, steps of the running mean); returns SVG."""

    def draw(axis: Axes, panel: tuple[str, str, int]) -> None:
        metric, title, window = panel
        for place, (variant, children) in enumerate(variants.items()):
            _curve(axis, [child.rows[metric] for child in children if metric in child.rows], variant, place, window)
        axis.set_title(title)
        axis.grid(True)
        _steps_below(axis)

    figure = _panels(panels, draw, columns, height)
    if legend:
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=min(len(labels), 6), frameon=False)
    return _svg(figure)


def verdict_areas(variants: Series, window: int) -> str:
    """Shares of samples by verdict over the steps, one panel a variant that has any; returns SVG, "" where none has."""
    shares_of = {
        variant: {
            name: series for name in ERRORS if (series := _mean_over_seeds(children, f"code/error/{name}", window))[0]
        }
        for variant, children in variants.items()
    }
    shown = [variant for variant, present in shares_of.items() if present]
    if not shown:
        return ""

    def draw(axis: Axes, variant: str) -> None:
        present = shares_of[variant]
        steps = sorted({step for at, _ in present.values() for step in at})
        shares = [np.interp(steps, *series) for series in present.values()]
        axis.stackplot(
            steps, shares, colors=[ERROR_COLORS[name] for name in present],
            labels=[name.replace("_", " ") for name in present], lw=0,
        )  # fmt: skip
        axis.set_title(variant)
        axis.set_ylim(0, 1)
        axis.margins(x=0)
        _steps_below(axis)

    figure = _panels(shown, draw, 3, 2.4)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False)
    return _svg(figure)


def _panels(panels: list[T], draw: Callable[[Axes, T], None], columns: int, height: float) -> Figure:
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            rows, columns, figsize=(10.4, height * rows + 0.5), layout="constrained", squeeze=False
        )  # fmt: skip
        for axis, panel in zip(axes.flat, panels, strict=False):
            draw(axis, panel)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
    return figure


def _steps_below(axis: Axes) -> None:
    axis.set_xlabel("step")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))


def _curve(axis: Axes, seeds: list[list[Row]], variant: str, place: int, window: int) -> None:
    color = PALETTE[place % len(PALETTE)]
    style = "-" if place < len(PALETTE) else "--"
    table = _by_step(seeds, window)
    if not table:
        return
    steps = sorted(table)
    marker = "o" if len(steps) <= 12 else None
    axis.plot(steps, [np.mean(table[step]) for step in steps], style, color=color, lw=1.8, marker=marker, ms=3.5,
              label=variant)  # fmt: skip
    if len(seeds) > 1:
        low, high = ([extreme(table[step]) for step in steps] for extreme in (min, max))
        axis.fill_between(steps, low, high, color=color, alpha=0.15, lw=0)


def _by_step(seeds: list[list[Row]], window: int) -> dict[int, list[float]]:
    """Values of every seed by step, each smoothed by a running mean; a step that not all seeds have is left out."""
    table: dict[int, list[float]] = {}
    for rows in seeds:
        kept = [row for row in rows if np.isfinite(row.value)]
        for place, row in enumerate(kept):
            around = [other.value for other in kept[max(0, place - window + 1) : place + 1]]
            table.setdefault(row.step, []).append(float(np.mean(around)))
    return {step: values for step, values in table.items() if len(values) == len(seeds)}


def _mean_over_seeds(children: list[ChildRows], metric: str, window: int) -> tuple[list[int], list[float]]:
    table = _by_step([child.rows[metric] for child in children if metric in child.rows], window)
    return sorted(table), [float(np.mean(table[step])) for step in sorted(table)]


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with plt.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()
