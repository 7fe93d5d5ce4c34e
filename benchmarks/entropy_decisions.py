"""Do window entropies find decisions? The premise of AEPO (arXiv 2510.08457), tested on a model without training it.

Of the warm-started tiny-reason model: 200 responses to problems of its train set, as many of each level; from each
token 32 continuations, graded as a run grades them. The variance of success, p(1 − p), says how open the outcome is
after the token. Decided before the first figure was seen: a token is a decision where that variance is half of the
greatest one or more (.125); the scores are the token's window entropy, its own entropy, its place (earlier is higher)
and a keyed random number; the area under the ROC curve is taken over all tokens that a full window follows, and its
interval over responses. Exploratory: each level by itself, and as another truth the turns, tokens with which the chance
of success moves by .3 or more; and how many HWE tokens a response has by how often it checks.

    python -m benchmarks.entropy_decisions [--responses 200] [--continuations 32]
    python -m benchmarks.entropy_decisions --from docs/results/entropy-decisions.csv

The first continues where it was stopped (runs/entropy-decisions.jsonl) and writes docs/results/entropy-decisions.csv, a
line a token, and the picture; the second makes table and picture of those lines, without the model.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from algorithms.entropy import token_entropy, window_entropy
from algorithms.keyed_sampling import keyed_uniform
from algorithms.keys import derive_seed
from ares.engines import Request, SamplingSettings, TransformersEngine
from ares.models import stored_tensors
from benchmarks.auroc import Auroc, aurocs
from examples.tiny import CHECKPOINTS
from rewards.math import grade_answers

WINDOW = 4
MOST_TOKENS = 160
"""Of a response, as in profiles/tiny-reason.yaml."""
DECISION = 0.125
"""Variance of success from which the outcome is open; the maximum is .25."""
TURN = 0.3
"""Change of the chance of success with one token."""
MODEL = CHECKPOINTS / "reason"
CHECKOUT = CHECKPOINTS.parents[2]
ROWS = Path("runs/entropy-decisions.jsonl")
CSV = Path("docs/results/entropy-decisions.csv")
PICTURE = Path("docs/images/entropy-decisions.png")
CHECK = " check"
"""The token that a check begins with."""
PERCENTILES = (95, 50)
"""Of a response's windows, from which τ is estimated: the published one, and that of profiles/tiny-reason.yaml."""
SCORES = {"window_entropy": "window entropy", "entropy": "token entropy", "earliness": "place", "random": "random"}


@dataclass(frozen=True)
class Branches:
    """One response, and how many of the continuations from each of its places succeed."""

    problem: str
    level: int
    tokens: list[str]
    entropies: list[float]
    """Of each token (nats)."""
    successes: list[int]
    """Of the continuations that keep none, one, two … of the tokens; as far as a token has a full window."""
    continuations: int
    seed: int
    model: str
    is_right: bool


class Sampler:
    """The model, drawing responses and continuations by key."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
        self.seed, self.folder = seed, folder
        ends = {self.tokenizer.eos_token_id}
        self.engine = TransformersEngine(str(folder), "float32", "cpu", ends, self.tokenizer.pad_token_id)
        self.engine.load_weights(0, stored_tensors(AutoModelForCausalLM.from_pretrained(folder)))
        self.sampling = SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=MOST_TOKENS)

    def branches(self, row: dict[str, str], continuations: int) -> Branches:
        """A response to a problem (id, prompt, answer, level), and its continuations from every place."""
        turn = [{"role": "user", "content": row["prompt"]}]
        text = self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        prompt = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        (response,) = self.drawn(prompt, [[]], 1, row["id"])
        kept = [response[:count] for count in range(len(response) - WINDOW + 1)]
        drawn = self.drawn(prompt, kept, continuations, row["id"])
        right = self.right([response, *drawn], row["answer"])
        return Branches(
            problem=row["id"],
            level=int(row["level"]),
            tokens=self.tokenizer.batch_decode([[token] for token in response]),
            entropies=self.entropies(prompt, response),
            successes=right[1:].reshape(len(kept), continuations).sum(1).tolist(),
            continuations=continuations,
            seed=self.seed,
            model=_name(self.folder),
            is_right=bool(right[0]),
        )

    def drawn(self, prompt: list[int], kept: list[list[int]], each: int, problem: str) -> list[list[int]]:
        """`each` responses that begin with each of the kept tokens, whole."""
        requests = [
            Request([*prompt, *tokens], derive_seed("entropy decisions", self.seed, problem, each, len(tokens), number))
            for tokens in kept for number in range(each)
        ]  # fmt: skip
        completions = self.engine.generate(requests, self.sampling)
        return [[*kept[number // each], *found.token_ids.tolist()] for number, found in enumerate(completions)]

    def right(self, responses: list[list[int]], answer: str) -> np.ndarray:
        """Which responses are right; one beyond the limit was cut there and is not."""
        texts = self.tokenizer.batch_decode([tokens[:MOST_TOKENS] for tokens in responses], skip_special_tokens=True)
        different = list(dict.fromkeys(texts))
        grades = dict(zip(different, grade_answers(different, [answer] * len(different)), strict=True))
        return np.array([grades[text] == 1.0 for text in texts])

    @torch.no_grad()
    def entropies(self, prompt: list[int], response: list[int]) -> list[float]:
        """Of the distributions that the response's tokens were drawn from (nats)."""
        logits = self.engine.model(torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1]
        return [round(value, 6) for value in token_entropy(logits).tolist()]


def problems(folder: Path, responses: int) -> list[dict[str, str]]:
    """The first problems of the train set, as many of each level."""
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    levels = sorted({row["level"] for row in rows})
    return [row for level in levels
            for row in [row for row in rows if row["level"] == level][: responses // len(levels)]]  # fmt: skip


def drawn_branches(rows: Path, folder: Path, responses: int, continuations: int, seed: int) -> list[Branches]:
    """Every response with its continuations; those that `rows` holds already are not drawn again."""
    found = {
        each.problem: each
        for each in _read(rows)
        if (each.continuations, each.seed) == (continuations, seed) and _is_named(each.model, folder)
    }
    wanted = problems(folder, responses)
    missing = [row for row in wanted if row["id"] not in found]
    sampler = Sampler(folder, seed) if missing else None
    for number, row in enumerate(missing):
        assert sampler is not None
        found[row["id"]] = sampler.branches(row, continuations)
        with rows.open("a", encoding="utf-8") as target:
            target.write(json.dumps(asdict(found[row["id"]])) + "\n")
        print(f"\r{number + 1} of {len(missing)} responses", end="", flush=True)
    print()
    return [found[row["id"]] for row in wanted]


def _name(folder: Path) -> str:
    """How rows call a model: its path below the checkout, which may lie elsewhere tomorrow; of others the whole one."""
    whole = folder.absolute()
    return str(whole.relative_to(CHECKOUT) if whole.is_relative_to(CHECKOUT) else whole)


def _is_named(name: str, folder: Path) -> bool:
    """Whether rows with this name are the model's; older rows have the whole path, in whatever checkout."""
    wanted = Path(_name(folder)).parts
    return Path(name).parts[-len(wanted) :] == wanted


def _read(rows: Path) -> list[Branches]:
    """What a file of rows holds, without a last line that was cut short with the process that wrote it."""
    rows.parent.mkdir(parents=True, exist_ok=True)
    text = rows.read_text(encoding="utf-8") if rows.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        rows.write_text(whole, encoding="utf-8")
    return [Branches(**json.loads(line)) for line in whole.splitlines()]


def token_table(responses: list[Branches]) -> pd.DataFrame:
    """A line for every token that a full window follows.

    before, after: how many of the continuations succeed that redraw the token, and that keep it.
    """
    tables = []
    for each in responses:
        entropy = torch.tensor([each.entropies])
        windows = window_entropy(entropy, torch.ones_like(entropy), WINDOW)[0].tolist()
        count = len(each.successes) - 1
        tables.append(
            pd.DataFrame(
                {
                    "problem": each.problem, "level": each.level, "place": range(count), "token": each.tokens[:count],
                    "entropy": each.entropies[:count], "window_entropy": np.round(windows[:count], 6),
                    "before": each.successes[:-1], "after": each.successes[1:],
                    "continuations": each.continuations,
                }
            )
        )  # fmt: skip
    return pd.concat(tables, ignore_index=True)


def variance_of_success(successes: np.ndarray, continuations: np.ndarray) -> np.ndarray:
    """p(1 − p), without bias: k(n − k) / (n(n − 1)) of k successes among n continuations."""
    return successes * (continuations - successes) / (continuations * (continuations - 1))


def truths(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """What is to be found: bool [N] each."""
    after, before, count = (table[name].to_numpy() for name in ("after", "before", "continuations"))
    return {
        "decision": variance_of_success(after, count) >= DECISION,
        "turn": np.abs(after - before) / count >= TURN,
    }


def scores(table: pd.DataFrame) -> dict[str, np.ndarray]:
    """What is to find it: float [N] each, the first one that the others are compared with."""
    seeds = torch.full((len(table),), derive_seed("entropy decisions", "random"))
    return {
        "window_entropy": table["window_entropy"].to_numpy(),
        "entropy": table["entropy"].to_numpy(),
        "earliness": -table["place"].to_numpy().astype(float),
        "random": keyed_uniform(seeds, torch.arange(len(table))).numpy(),
    }


def results(table: pd.DataFrame) -> dict[tuple[str, str], dict[str, Auroc]]:
    """The areas by truth and tokens: all of them, and those of each level."""
    found = {}
    of_response, true, score = table["problem"].to_numpy(), truths(table), scores(table)
    parts = {"all": np.full(len(table), True)}
    parts |= {f"level {level}": (table["level"] == level).to_numpy() for level in sorted(set(table["level"]))}
    for truth, values in true.items():
        for part, inside in parts.items():
            if values[inside].any() and not values[inside].all():
                chosen = {name: each[inside] for name, each in score.items()}
                found[truth, part] = aurocs(chosen, values[inside], of_response[inside], (truth, part))
    return found


def hwe_by_checks(table: pd.DataFrame, percentile: float) -> tuple[float, pd.DataFrame]:
    """τ (nats) as a run's first batch would set it, and for each response its level, checks and HWE tokens."""
    of_response = table.groupby("problem", sort=False)["window_entropy"]
    # As in algorithms/entropy.py: the last tokens, which no full window follows, count with the mean of the others.
    threshold = float(np.median([
        np.percentile([*windows, *[windows.mean()] * WINDOW], percentile) for _, windows in of_response
    ]))  # fmt: skip
    marked = table.assign(hwe=table["window_entropy"] >= threshold, checks=table["token"] == CHECK)
    return threshold, marked.groupby("problem", sort=False).agg(
        level=("level", "first"), checks=("checks", "sum"), hwe=("hwe", "sum")
    )


def told_counts(table: pd.DataFrame, percentile: float) -> str:
    """HWE tokens of a response, mean (spread) by level and number of checks, as text."""
    threshold, counts = hwe_by_checks(table, percentile)
    lines = [f"\nHWE tokens of a response by its checks, τ from the {percentile}th percentile: {threshold:.3f} nats"]
    for level, of_level in counts.groupby("level"):
        by_checks = of_level.groupby("checks")["hwe"]
        parts = [f"{checks}: {hwe.mean():.1f} ({hwe.std(ddof=0):.1f})" for checks, hwe in by_checks]
        lines.append(f"  level {level}   {'   '.join(parts)}")
    return "\n".join(lines)


def told(table: pd.DataFrame, found: dict[tuple[str, str], dict[str, Auroc]]) -> str:
    """The figures as text."""
    true = truths(table)
    lines = [
        f"{table['problem'].nunique()} responses, {len(table)} tokens, {table['continuations'].iloc[0]} continuations "
        f"each; decisions {true['decision'].mean():.3f}, turns {true['turn'].mean():.3f}"
    ]
    for (truth, part), areas in found.items():
        lines.append(f"\n{truth}, {part}{'' if (truth, part) == ('decision', 'all') else ' (exploratory)'}")
        for name, area in areas.items():
            behind = "" if name == "window_entropy" else (
                f"   window entropy is ahead by {area.behind:+.3f} [{area.behind_low:+.3f}, {area.behind_high:+.3f}]"
            )  # fmt: skip
            lines.append(f"  {SCORES[name]:15}{area.value:.3f} [{area.low:.3f}, {area.high:.3f}]{behind}")
    lines += [told_counts(table, percentile) for percentile in PERCENTILES]
    return "\n".join(lines)


def plot(table: pd.DataFrame, found: dict[tuple[str, str], dict[str, Auroc]], path: Path) -> None:
    """Areas with intervals, by truth; and how open the outcome is by window entropy."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.4), gridspec_kw={"width_ratios": [1, 1, 1.1]})
    for axis, truth, title in zip(
        axes, ("decision", "turn"), ("is the outcome open after it?", "does the token turn it?"), strict=False
    ):
        areas = found[truth, "all"]
        for place, area in enumerate(areas.values()):
            axis.plot([area.low, area.high], [place, place], color="#2f5c8f", lw=2)
            axis.plot(area.value, place, "o", color="#2f5c8f")
        axis.axvline(0.5, color="#8a94a0", lw=1, ls=":")
        axis.set_yticks(range(len(areas)), [SCORES[name] for name in areas])
        axis.invert_yaxis()
        axis.set_xlim(0, 1)
        axis.set_xlabel("AUROC, 95 % over responses")
        axis.set_title(title, fontsize=10)
    variance = variance_of_success(table["after"].to_numpy(), table["continuations"].to_numpy())
    for column, label, color in (
        ("window_entropy", "window entropy", "#2f5c8f"),
        ("entropy", "token entropy", "#d55e00"),
    ):
        tenth = pd.qcut(table[column].rank(method="first"), 10, labels=False)
        axes[2].plot(range(1, 11), pd.Series(variance).groupby(tenth.to_numpy()).mean(), "o-", color=color, label=label)
    axes[2].axhline(variance.mean(), color="#8a94a0", lw=1, ls=":")
    axes[2].set_xlabel("tenth of the tokens, by entropy")
    axes[2].set_title("variance of success", fontsize=10)
    axes[2].legend(frameon=False, fontsize=8)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=200)
    parser.add_argument("--continuations", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--rows", type=Path, default=ROWS, help="what was drawn, a line a response")
    parser.add_argument("--csv", type=Path, default=CSV)
    parser.add_argument("--plot", type=Path, default=PICTURE)
    parser.add_argument("--from", type=Path, dest="source", help="a file that --csv wrote: draw nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.source:
        table = pd.read_csv(arguments.source, keep_default_na=False)
    else:
        table = token_table(
            drawn_branches(
                arguments.rows, arguments.model, arguments.responses, arguments.continuations, arguments.seed
            )
        )
        table.to_csv(arguments.csv, index=False, lineterminator="\n")
    found = results(table)
    print(told(table, found))
    plot(table, found, arguments.plot)


if __name__ == "__main__":
    main()
