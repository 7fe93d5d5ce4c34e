"""Rows of a small ablation, as MLflow would return them, and a parser of the report's HTML."""

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pandas as pd

from ares.ablations.definition import Ablation
from ares.ablations.rows import CHILD, ROW, AblationRows, as_rows, find_differing

ABLATION = Ablation(name="leash", profile="tiny-math", variants={"loose": [], "tight": []}, seeds=[0, 1, 2])
FINAL = {"loose": [0.60, 0.62, 0.64], "tight": [0.80, 0.83, 0.81]}


def child(variant: str, seed: int, final: float, steps: int = 8, code: bool = False) -> pd.DataFrame:
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
    table = pd.DataFrame(rows).sort_index()
    return table.set_index(pd.MultiIndex.from_product([[variant], [seed], table.index], names=ROW))


def ablation(code: bool = False, children: dict[tuple[str, int], pd.DataFrame] | None = None,
             **changes: object) -> AblationRows:  # fmt: skip
    """children: the rows of each, those of FINAL if none are given; an empty table is a child without a row."""
    if children is None:
        children = {(variant, seed): child(variant, seed, FINAL[variant][seed], code=code)
                    for variant in FINAL for seed in (0, 1, 2)}  # fmt: skip
    about = {
        (variant, seed): {"run_id": f"{variant}{seed}" * 4, "name": f"leash-{variant}-seed{seed}", "variant": variant,
                          "seed": seed}
        for variant, seed in children
    }  # fmt: skip
    coefs = {"loose": "0.01", "tight": "0.1"}
    settings = {variant: {"algorithm.kl.coef": coefs[variant], "rollout.n": "8", "train.seed": str(seed)}
                for variant, seed in children}  # fmt: skip
    begun = [each for each in children.values() if len(each)]
    rows = pd.concat(begun) if begun else as_rows({})
    found = AblationRows("sqlite:///x", "7", "parent", ABLATION, "", about, find_differing(settings), rows, as_rows({}))
    return replace(found, **changes)  # type: ignore[arg-type]


def children_of(found: AblationRows) -> dict[Any, pd.DataFrame]:
    """The rows of each child, to make another ablation of."""
    return dict(iter(found.rows.groupby(CHILD, sort=False)))


class Page:
    """Text of every table row, and every address that the page loads something from."""

    def __init__(self, text: str) -> None:
        lines = re.findall(r"<tr\b.*?</tr>", text, re.DOTALL)
        cells = [re.findall(r"<t[dh]\b[^>]*>(.*?)</t[dh]>", line, re.DOTALL) for line in lines]
        self.rows = [[" ".join(unescape(re.sub(r"<[^>]*>", "", cell)).split()) for cell in of] for of in cells]
        self.loaded = re.findall(r"""(?:\b(?:src|srcset|poster)|<link\b[^>]*\bhref)\s*=\s*["']?([^"'\s>]+)""", text)


def paired_ablation(code: bool = False, **changes: object) -> AblationRows:
    """With the held-out accuracies of ten problems, of which every seed solves the same share."""
    held_out = ablation().rows["val/accuracy"].dropna()
    return ablation(
        code, **changes, problems=pd.DataFrame({f"p{n}": held_out + 0.01 * (n % 2 - 0.5) for n in range(10)})
    )
