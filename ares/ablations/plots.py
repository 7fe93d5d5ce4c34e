"""The pictures of an ablation's report: differences from the baseline, learning curves with seed bands.

Covered: self-contained SVG text. A curve is the mean over the seeds of a variant at each step; its band reaches from
the lowest to the highest seed: a range, not an interval. Not covered: which metrics are shown
(ares/ablations/report.py).
"""

import io
import math
from collections.abc import Callable
from typing import TypeVar

import matplotlib

matplotlib.use("Agg")
import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ares.ablations.statistics import Difference

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6b6b6b", "#8c510a")
"""Okabe and Ito's colours, told apart with any colour vision; more variants than colours repeat them, dashed."""
STYLE = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#8a94a0",
    "axes.titlesize": 10, "axes.titleweight": "bold", "axes.titlelocation": "left", "grid.color": "#e3e7eb",
    "svg.fonttype": "path", "svg.hashsalt": "ares", "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
}  # fmt: skip
T = TypeVar("T")


def draw_differences(baseline: str, order: list[str], panels: list[tuple[str, dict[str, Difference], float]]) -> str:
    """Each variant's difference from the baseline, one panel per (title, differences, margin or 0); returns SVG.

    A small dot per seed, the mean with its 95 % interval (over problems too, where they are known), and a dashed line
    at the margin. `order`: all variants, from the top; a variant keeps its colour of the curves.
    """
    shown = [name for name in order if any(name in of for _, of, _ in panels)]

    def draw(axis: Axes, panel: tuple[str, dict[str, Difference], float]) -> None:
        title, of, margin = panel
        for name, difference in of.items():
            height, color = -shown.index(name), PALETTE[order.index(name) % len(PALETTE)]
            axis.plot(difference.by_seed, [height - 0.22] * len(difference.by_seed), "o", color=color, ms=3, alpha=0.45)
            interval = difference.widest if difference.has_problems else difference.interval
            if interval is not None:
                axis.plot(interval, [height, height], color=color, lw=2.2, solid_capstyle="butt")
            axis.plot([difference.mean], [height], "D", color=color, ms=5)
        axis.axvline(0, color="#8a94a0", lw=1)
        if margin:
            axis.axvline(-margin, color="#8a94a0", lw=1, ls="--")
        axis.set_yticks([-place for place in range(len(shown))], shown)
        axis.set_ylim(0.5 - len(shown), 0.5)
        axis.set_title(title)
        axis.set_xlabel(f"difference from {baseline}")
        axis.grid(True, axis="x")

    return _draw_panels(panels, draw, 2, 0.7 + 0.26 * len(shown))


def draw_curves(variants: dict[str, pd.DataFrame], panels: list[tuple[str, str, int]], columns: int, height: float,
                legend: bool) -> str:  # fmt: skip
    """One panel a metric, given as (metric, title, steps of the running mean); returns SVG, "" without any.

    variants: for each, the rows of its children (ares/ablations/rows.py).
    """
    if not panels:
        return ""

    def draw(axis: Axes, panel: tuple[str, str, int]) -> None:
        metric, title, window = panel
        for place, (variant, rows) in enumerate(variants.items()):
            known = rows[metric].droplevel("variant").unstack("seed").dropna(axis=1, how="all")
            # Running means of the values that a seed has; a step that not all have is left out.
            seeds = known.apply(lambda values: values.dropna().rolling(window, min_periods=1).mean()).dropna()
            if seeds.empty:
                continue
            color, style = PALETTE[place % len(PALETTE)], "-" if place < len(PALETTE) else "--"
            marker = "o" if len(seeds) <= 12 else None
            axis.plot(seeds.index, seeds.mean(axis=1), style, color=color, lw=1.8, marker=marker, ms=3.5, label=variant)
            axis.fill_between(seeds.index, seeds.min(axis=1), seeds.max(axis=1), color=color, alpha=0.15, lw=0)
        axis.set_title(title)
        axis.grid(True)
        axis.set_xlabel("step")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))

    return _draw_panels(panels, draw, columns, height, legend)


def _draw_panels(panels: list[T], draw: Callable[[Axes, T], None], columns: int, height: float,
                 legend: bool = False) -> str:  # fmt: skip
    """A figure with a panel for each of `panels`, as SVG; the legend is the first panel's."""
    columns = min(columns, len(panels))
    rows, text = math.ceil(len(panels) / columns), io.StringIO()
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            rows, columns, figsize=(10.4, height * rows + 0.5), layout="constrained", squeeze=False
        )  # fmt: skip
        for axis, panel in zip(axes.flat, panels, strict=False):
            draw(axis, panel)
        for axis in axes.flat[len(panels) :]:
            axis.remove()
        if legend:
            handles, labels = axes.flat[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=min(len(labels), 6), frameon=False)
        figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()
