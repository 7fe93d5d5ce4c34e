"""What the page shows of samples: a step's rows, a group with its tokens, a problem through training.

Tables are read from parquet, only the columns and steps that a view needs. Pieces of text are decoded with the model's
tokenizer.json alone: transformers takes seconds to load. Not covered: the colours of tokens (assets/page.js).
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from ares.browse.runs import TABLES, curves
from ares.config import location
from ares.store import DamagedArtifact, RunStore, StoreError, checked_name

TEXTS = (
    "prompt", "response", "ground_truth", "test_outcomes", "media_references",
    "transcript", "turn_rewards", "episode_error",
)  # fmt: skip
"""Columns that a list of samples does without."""
EXCERPT = 100
"""Characters at the end of a response that a list shows."""
ANSWERED = ["sample", "response", "accuracy", "reward", "tokens", "ended"]
"""What a view of a problem shows of a sample."""
MEASURES = {
    "entropy": "entropies", "log_prob": "old_log_probs", "reference": "ref_log_probs", "engine": "engine_log_probs",
    "advantage": "advantages", "kl_coef": "kl_coefs", "hwe": "hwe_mask", "trained": "response_mask",
}  # fmt: skip
"""What the page calls a measure, and its tensor [B, L]."""


def samples(store: RunStore, step: int, table: str) -> dict[str, Any]:
    """A step's samples, a list for each column, without whole texts; `parts`: the columns a reward is the sum of."""
    rows = _rows(store, step, table)
    names = [str(name) for name in rows]
    parts = [name for name in names if name.startswith("reward_")]
    if "reward" in rows and not {"reward_code", "reward_score"} & set(parts):
        parts.insert(0, "accuracy")
    columns = as_json(rows.drop(columns=[*TEXTS], errors="ignore").to_dict("list"))
    return {"columns": columns | {"excerpt": [text[-EXCERPT:] for text in rows["response"]]}, "parts": parts}


def texts(store: RunStore, step: int, table: str) -> list[str]:
    """All responses of a step, row by row."""
    return list(_rows(store, step, table)["response"])


def group(store: RunStore, step: int, table: str, number: int) -> dict[str, Any]:
    """A problem's samples of a step with their whole texts, and their tokens or `missing`: why there are none."""
    found = _group(store, step, table, number)
    shown: dict[str, Any] = {"samples": as_json(found.to_dict("records"))}
    model = store.read_run().get("config", {}).get("model", {}).get("path", "")
    tokenizer = load_pieces(model)
    try:
        ref = store.read_commit(step).artifacts.get("batch") if table == "samples" else None
        if ref is None:
            return shown | {"missing": "no tokens: the learner measures trained samples alone"}
        tokens = token_rows(store.here(ref.path), found.index.tolist(), tokenizer)
    except StoreError as error:
        return shown | {"missing": str(error)}
    for sample, row in zip(shown["samples"], tokens, strict=True):
        sample["token_rows"] = row
    missing = "" if tokenizer else f"tokens are shown by their numbers: {model} has no tokenizer.json on this machine"
    return shown | {"missing": missing}


def tests(store: RunStore, step: int, table: str, number: int) -> dict[str, list[str]]:
    """The tests of a group's problem, in the order of its verdicts. Raises StoreError, ConfigError or DataError."""
    from ares.reports import list_tests  # these load transformers, which takes seconds

    name = str(_group(store, step, table, number)["id"].iloc[0])
    return {"tests": list_tests(store, name, table == "evaluation")}


def verdicts(store: RunStore, name: str, step: int) -> dict[str, Any]:
    """The verdicts of a step that `ares rescore` changed, a list for each column. name: of a folder in rescores/."""
    path = store.here(f"rescores/{checked_name(name)}/{step:06d}.parquet")
    if not path.exists():
        raise StoreError(f"{path} is gone: `ares rescore` writes it again")
    return dict(as_json(pd.read_parquet(path).to_dict("list")))


def problems(store: RunStore) -> dict[str, Any]:
    """Every problem of a run in order of its first use: a list for each column."""
    by = _met(store).groupby(["set", "id"], sort=False)  # a held-out set may have the ids of the train set
    firsts = by.agg(first=("step", "first"), last=("step", "last"), times=("step", "nunique"),
                    accuracy_first=("accuracy", "first"), accuracy_last=("accuracy", "last")).reset_index()  # fmt: skip
    return dict(as_json(firsts.to_dict("list")))


def problem(store: RunStore, part: str, name: str) -> dict[str, Any]:
    """A problem, by its set (samples or evaluation) and id: prompt, answer, and the samples of each step that met it.

    Raises StoreError.
    """
    met = _met(store)
    met = met[(met["set"] == part) & (met["id"] == name)]
    if met.empty:
        raise StoreError(f"{store.name} has not met this problem")
    moments, last = [], pd.Series()
    for step, table in met[["step", "table"]].itertuples(index=False):
        rows = _rows(store, step, table, name)
        columns = as_json(rows.filter(ANSWERED).to_dict("list"))
        moments.append({"step": step, "table": table, "group": int(rows["group"].iloc[0]), "columns": columns})
        last = rows.iloc[0]
    answer = as_json(last.get("ground_truth"))
    return {
        "id": name,
        "prompt": as_json(last["prompt"]),
        "answer": None if answer is None else str(answer),
        "moments": moments,
    }


def _met(store: RunStore) -> pd.DataFrame:
    """A row for each problem, step and table that met it: set ("samples" or "evaluation"), id, accuracy, table, step;
    those of the train set first, in the order of steps."""
    return _met_until(store, store.digest(store.committed_steps()[-1]) if store.committed_steps() else None)


@lru_cache(maxsize=4)
def _met_until(store: RunStore, last: str | None) -> pd.DataFrame:
    """last: digest of the newest commit."""
    found = [pd.DataFrame(columns=["id", "accuracy", "set", "table", "step"])]
    for table, steps in curves(store)["tables"].items():
        of = "evaluation" if table == "evaluation" else "samples"
        for step in steps:
            try:
                rows = _table(store, step, table, ("id", "accuracy")).to_pandas()
            except StoreError:  # the view of the step says why
                continue
            means = rows.groupby(rows["id"].astype(str), sort=False)["accuracy"].mean().astype(float)
            found.append(means.rename_axis("id").reset_index().assign(set=of, table=table, step=step))
    met = pd.concat(found[1:] or found, ignore_index=True)
    return pd.concat([met[met["set"] == of].sort_values("step", kind="stable") for of in ("samples", "evaluation")])


def _rows(store: RunStore, step: int, table: str, of: str | None = None) -> pd.DataFrame:
    """A step's table, with the number of each row's group, and how its response ended. of: a problem's rows alone."""
    whole = _table(store, step, table)
    if "response" not in whole.column_names:
        raise StoreError(f"Run {store.name!r}, step {step}: an older version wrote its {table}, without responses")
    ids = whole["id"].to_pandas().astype(str)
    numbers = whole["slot"].to_pandas() if "slot" in whole.column_names else pd.Series(pd.factorize(ids)[0], ids.index)
    if of is not None:
        chosen = ids == of
        whole, ids, numbers = whole.filter(pa.array(chosen)), ids[chosen], numbers[chosen]
    rows = whole.to_pandas().set_axis(ids.index)
    cut = rows["truncated"].astype(bool) if "truncated" in rows else rows.get("finish_reason", ids) == "length"
    ended = rows["error_type"].fillna("") if "error_type" in rows else pd.Series("", rows.index)
    return rows.assign(id=ids, group=numbers.astype(int), ended=ended.astype(str).mask(cut, "truncated"))


def _group(store: RunStore, step: int, table: str, number: int) -> pd.DataFrame:
    """The rows of a group, by their places in the table. Raises StoreError if there are none."""
    rows = _rows(store, step, table)
    found = rows[rows["group"] == number]
    if found.empty:
        raise StoreError(f"Run {store.name!r}: step {step} has no group {number} of {table}")
    return found


def _table(store: RunStore, step: int, table: str, columns: tuple[str, ...] | None = None) -> pa.Table:
    """A table, or some of its columns. Raises StoreError if it is gone."""
    ref = store.read_commit(step).artifacts.get(table) if table in TABLES else None
    if ref is None:
        raise StoreError(f"Run {store.name!r}: step {step} has no {table}")
    path = store.here(ref.path)
    if not path.exists():
        raise StoreError(f"{path} is gone: this step's {table} cannot be shown")
    return _read(path, ref.sha256, columns)


@lru_cache(maxsize=4)
def _read(path: Path, digest: str, columns: tuple[str, ...] | None) -> pa.Table:
    """A table as it was written; digest: of its file, which tells versions apart. Raises DamagedArtifact."""
    try:
        return pq.read_table(path, columns=columns and list(columns))
    except (OSError, pa.ArrowException) as error:
        raise DamagedArtifact(f"{path}: cannot be read: {error}") from error


# ---- tokens of trained samples --------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def load_pieces(model: str) -> Tokenizer | None:
    """A model's tokenizer; None if its tokenizer.json is not on this machine."""
    file = Path(location(model)) / "tokenizer.json"
    if file.exists():
        return Tokenizer.from_file(str(file))
    try:
        cached = try_to_load_from_cache(model, "tokenizer.json")
    except HFValidationError:  # a path, and nothing lies there
        return None
    return Tokenizer.from_file(cached) if isinstance(cached, str) else None


def token_rows(batch: Path, rows: list[int], tokenizer: Tokenizer | None) -> list[dict[str, Any]]:
    """For each of some rows of a batch: its `pieces` of text (ids without a tokenizer), and each measure by token.

    Raises StoreError.
    """
    try:
        with safe_open(batch, framework="numpy") as tensors:
            names = set(tensors.keys())
            read = {title: tensors.get_slice(name) for title, name in MEASURES.items() if name in names}
            ids, attended = tensors.get_slice("responses"), tensors.get_slice("attention_mask")
            width = ids.get_shape()[1]
            shown = []
            for row in rows:
                whole = attended[row : row + 1][0]
                length = int(whole[len(whole) - width :].sum())
                measures = {title: tensor[row : row + 1][0][:length] for title, tensor in read.items()}
                pieces = _pieces(ids[row : row + 1][0][:length].tolist(), tokenizer)
                shown.append(as_json({"pieces": pieces, **measures}))
            return shown
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{batch}: its tokens cannot be read: {error}") from error


def as_json(value: Any) -> Any:
    """A value as JSON has it: six digits, null for what is missing or not finite, arrays as lists."""
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | list):
        return [as_json(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return None if value is pd.NA else value.item() if isinstance(value, np.generic) else value


def _pieces(ids: list[int], tokenizer: Tokenizer | None) -> list[str]:
    """The text that each token adds: decoded behind the token before it, since decoders drop a leading space.

    A character that several tokens make up stands at the last of them.
    """
    if tokenizer is None:
        return [f"{token} " for token in ids]
    pieces, begun = [], 0
    for place in range(len(ids)):
        before = tokenizer.decode(ids[max(begun - 1, 0) : begun], skip_special_tokens=False)
        text = tokenizer.decode(ids[max(begun - 1, 0) : place + 1], skip_special_tokens=False)[len(before) :]
        if text.endswith("�") and place + 1 < len(ids) and place - begun < 4:
            pieces.append("")
        else:
            pieces.append(text)
            begun = place + 1
    return pieces
