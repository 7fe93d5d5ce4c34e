"""The picture of a step against TRL, from the figures that benchmarks/trl_step.py printed.

    python -m benchmarks.trl_picture      # docs/measurements/trl-step.csv → docs/images/trl-step.png

Not covered: measuring; the table is filled by hand from trl_step's output.
"""

from pathlib import Path

import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    rows = pd.read_csv(DOCS / "measurements" / "trl-step.csv")
    settings = list(rows["lengths"].unique())
    figure, panels = plt.subplots(1, len(settings), figsize=(11, 2.6), sharey=True)
    names = list(rows["who"].unique())[::-1]
    for panel, setting in zip(panels, settings, strict=True):
        speed = rows[rows["lengths"] == setting].set_index("who")["tokens_per_second"].reindex(names)
        colours = ["#4878a8" if name.startswith("ares") else "#b0b0b0" for name in names]
        bars = panel.barh(names, speed.fillna(0), color=colours)
        panel.bar_label(bars, ["not measured" if value != value else f"{value:,.0f}" for value in speed], padding=3)
        panel.set_title(setting, fontsize=9)
        panel.set_xlim(0, 1.3 * speed.max())
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    figure.supxlabel("tokens a second of a whole step", fontsize=9)
    figure.tight_layout()
    figure.savefig(DOCS / "images" / "trl-step.png", dpi=110)


if __name__ == "__main__":
    main()
