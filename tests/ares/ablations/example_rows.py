"""Rows of a small ablation, as MLflow would return them, and a parser of the report's HTML."""

from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd

from ares.ablations.definition import Ablation
from ares.ablations.rows import AblationRows, ChildRows

ABLATION = Ablation(name="leash", profile="tiny-math", variants={"loose": [], "tight": []}, seeds=[0, 1, 2])
FINAL = {"loose": [0.60, 0.62, 0.64], "tight": [0.80, 0.83, 0.81]}


def child(variant: str, seed: int, final: float, steps: int = 8, code: bool = False) -> ChildRows:
    """Evaluations at the start, half-way and at the end; a training metric at every step."""
    every = range(1, steps + 1)
    rows = {
        "val/accuracy": {0: 0.4, steps // 2: 0.5, steps: final},
        "filter/kept_share": {step: 0.5 + 0.01 * step + 0.001 * seed for step in every},
        "timing_s/step": dict.fromkeys(every, 2.0),
        "response_length/mean": {step: 30.0 + step for step in every},
        "perf/total_num_tokens": dict.fromkeys(range(steps + 1), 100.0),
    }
    if code:
        rows["code/error/accepted"] = {step: 0.05 * step for step in every}
        rows["code/error/wrong_answer"] = {step: 1 - 0.05 * step for step in every}
        rows["code/cost/tokens_per_solved"] = {step: 1000.0 / step for step in every}
    settings = {"algorithm.kl.coef": "0.1" if variant == "tight" else "0.01", "rollout.n": "8", "train.seed": str(seed)}
    return ChildRows(f"{variant}{seed}" * 4, f"leash-{variant}-seed{seed}", variant, seed, "abc", settings,
                     pd.DataFrame({name: pd.Series(of) for name, of in rows.items()}))  # fmt: skip


def ablation(code: bool = False, **changes: object) -> AblationRows:
    children = [child(variant, seed, FINAL[variant][seed], code=code) for variant in FINAL for seed in (0, 1, 2)]
    found = AblationRows("sqlite:///x", "7", "parent", ABLATION, "", children)
    return replace(found, **changes)  # type: ignore[arg-type]


class Page(HTMLParser):
    """Text of every table row, and every address that the page loads something from."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.loaded: list[str] = []
        self.cell: list[str] | None = None
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.cell = []
        self.loaded += [str(found[name]) for name in ("src", "srcset", "poster") if name in found]
        if tag == "link":
            self.loaded.append(str(found.get("href")))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self.cell is not None:
            self.rows[-1].append(" ".join("".join(self.cell).split()))
            self.cell = None

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.append(data)


def paired_ablation() -> AblationRows:
    """With the held-out accuracies of ten problems, of which every seed solves the same share."""
    found = ablation()
    for of in found.children:
        held_out = of.rows["val/accuracy"].dropna()
        of.problems = pd.DataFrame({f"p{n}": held_out + 0.01 * (n % 2 - 0.5) for n in range(10)})
    return found
