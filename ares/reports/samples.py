"""The samples of a step in the terminal: a table, or one sample with every part of its reward. Read-only."""

import json
import textwrap
from collections.abc import Mapping
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.table import Table
from rich.text import Text

from ares.data import Problems, is_video, load_tokenizer, path_of
from ares.printable import printable
from ares.runs import all_files, load_sets
from ares.step import OF_A_FUNCTION, PART, OpenEnvironment, is_second_turn
from ares.store import RunStore, StoreError, read_config, run_store

COLUMNS = {"id": "id", "sample": "k", "turn": "turn", "difficulty": "bucket"}
"""First columns of a step's sample table and their titles."""
GRADED = {"high_entropy_token_num": "HWE", "accuracy": "acc"}
"""Next columns; then the parts of the reward."""
JUDGED = {"pass_ratio": "passed", "error_type": "ended"}
"""The same for judged programs."""
LAST_COLUMNS = {"reward": "reward", "tokens": "tokens", "truncated": "cut"}


def samples_table(name: str, step: int) -> Table:
    """The samples of a step, one line each."""
    rows = step_samples(name, step)
    table = Table(title=f"{name}, step {step}: {len(rows)} samples", box=box.SIMPLE, padding=0, show_edge=False)
    names = list(map(str, rows.columns))
    of_functions = {name: name.removeprefix(OF_A_FUNCTION) for name in names if name.startswith(OF_A_FUNCTION)}
    parts = {name: name.removeprefix(PART).replace("_", " ") for name in names if name.startswith(PART)}
    columns = COLUMNS | (JUDGED if "pass_ratio" in rows else GRADED) | of_functions | parts | LAST_COLUMNS
    shown = [column for column in columns if column in rows]
    for column in shown:
        table.add_column(columns[column], justify="left" if column in ("id", "difficulty") else "right")
    for row in rows[shown].to_dict("records"):
        # As it stands: an id may look like rich's markup.
        table.add_row(*(Text(printable(_cell(value))) for value in row.values()))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value + 0.0:.3f}" if isinstance(value, float) else str(value)  # + 0.0: no minus before a zero


def sample_report(name: str, step: int, problem: str, sample: int) -> str:
    """Prompt, response, verdict and every part of one sample's reward; for a program, the outcome of every test.

    A second turn, which has a prompt of its own, comes after the first.
    """
    rows = step_samples(name, step)
    chosen = rows[(rows["id"] == problem) & (rows["sample"] == sample)]
    if chosen.empty:
        raise StoreError(f"Run {name!r} has no sample {sample} of problem {problem!r} in step {step}")
    return "\n\n".join(_report(name, step, row) for _, row in chosen.iterrows())


def _report(name: str, step: int, row: pd.Series) -> str:
    turn = f", turn {row['turn']}" if "turn" in row else ""
    shown = [f"{'video' if is_video(name) else 'image'}: {path_of(name)}" for name in row.get("media_references", ())]
    lines = [f"problem {row['id']}, sample {row['sample']}, step {step}{turn}", *shown, ""]
    said = [row["response"]] if "transcript" not in row else _transcript(row["transcript"])
    lines += [row["prompt"].rstrip(), *said, ""]
    is_code = "test_outcomes" in row
    if is_code:  # the problem may have got or lost tests since
        tests = zip_longest(list_tests(run_store(name), row["id"], False), row["test_outcomes"], fillvalue="–")
        lines += [*(f"{ending:16s} {test}" for test, ending in tests), ""]
    apart = {"id", "sample", "turn", "slot", "prompt", "response", "media_references", "transcript"}
    apart |= {"test_outcomes", "ground_truth"} if is_code else set()
    lines += [f"{key:32s} {value}" for key, value in row.items() if key not in apart]
    weights = read_config(run_store(name)).reward.weight_of
    lines += ["", reward_line(dict(row), weights)] if "reward" in row else []
    return printable("\n".join(lines))


def _transcript(written: str) -> list[str]:
    """An episode turn by turn; what the environment said, which is not learnt from, is set in."""
    lines = []
    for number, turn in enumerate(json.loads(written), 1):
        heard = turn["heard"] if isinstance(turn["heard"], list) else [turn["heard"]]
        lines += [f"── turn {number}", turn["said"].rstrip()]
        lines += [textwrap.indent(each.rstrip(), "    │ ", lambda line: True) for each in heard if each]
    return lines


def reward_line(row: Mapping[Any, Any], weights: Mapping[str, float]) -> str:
    """The reward of a sample as the sum of its parts (every column `reward_…`), or why it has none.

    Without a part for the graders' score, accuracy is that part. weights: of reward functions, whose weighted scores
    (columns `score_NAME`) add up to `reward_score`.
    """
    if pd.isna(row["reward"]):
        why = "its response was cut off" if row["truncated"] and pd.notna(row["accuracy"]) else "it could not be graded"
        return f"no reward: {why}"
    names = [name for name in row if name.startswith(PART) and pd.notna(row[name])]
    names = names if f"{PART}code" in row or f"{PART}score" in row else ["accuracy", *names]
    parts = " + ".join(f"{name} {float(row[name]):+.4f}" for name in names)
    said = [f"{weight:g} × {name} {float(row[OF_A_FUNCTION + name]):+.4f}" for name, weight in weights.items()
            if pd.notna(row.get(OF_A_FUNCTION + name))]  # fmt: skip
    of_functions = f"\nreward_score = {' + '.join(said)}" if len(weights) > 1 and said else ""
    return f"reward {float(row['reward']):+.4f} = {parts}{of_functions}"


def step_samples(name: str, step: int) -> pd.DataFrame:
    """The samples of a committed step; where there are second turns, a column says which is one. Raises StoreError."""
    store = run_store(name)
    store.read_run()
    if step not in store.committed_steps():
        raise StoreError(f"Run {name!r} has no committed step {step}")
    rows = store.read_rows(store.read_commit(step).artifacts["samples"])
    if "slot" in rows and (second := is_second_turn(rows)).any():
        rows["turn"] = 1 + second.astype(int)
    return rows


def list_tests(store: RunStore, problem: str, is_held_out: bool) -> list[str]:
    """The tests of a problem in the order of their outcomes. Raises StoreError, ConfigError or DataError."""
    chosen = _problems(store.directory)[is_held_out]
    if chosen is None or problem not in set(chosen.frame["id"]):
        raise StoreError(f"Run {store.name!r}: its data has no problem {problem!r} now, so its tests are not known")
    row = chosen.rows([problem]).iloc[0]
    return [*row["test_cases"], *(f"stdin {given!r} → {expected!r}" for given, expected in row["stdin_tests"])]


@lru_cache(maxsize=4)
def _problems(directory: Path) -> tuple[Problems, Problems | None]:
    """The problems that a run trains on, and those held out."""
    store = RunStore(directory)
    config = read_config(store)
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    environment = OpenEnvironment.of(config, tokenizer)
    try:
        train, held_out, _ = load_sets(config, directory.parent, tokenizer, environment, all_files(store))
        return train, held_out
    finally:
        if environment is not None:
            environment.close()
