"""Rows to tensors and back: sampled and graded rows as a DataProto, a DataProto as a readable table.

    prompt 5 6,   response 7 8 9        prompts  0 5 6   responses  7 8 9   attention_mask  0 1 1 1 1 1
    prompt 1 2 3, response 4                     1 2 3              4 0 0                   1 1 1 1 0 0

Covered: padding, joining the parts of a batch, columns of graders. Not covered: rewards and advantages
(ares/step/shaping.py).
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from algorithms.protocol import DataProto
from ares.data import Problems
from ares.step.metrics import function_columns
from ares.step.rewards import PART
from ares.step.rows import GREEDY, SAMPLED, sampled_rows
from rewards.math import answer_text

OF_GRADERS = (
    "prompt", "response", "baseline", "pass_ratio", "error_type", "test_outcomes", "trusted",
    "turns", "turn_rewards", "episode_error", "transcript",
)  # fmt: skip
"""Optional columns of graded rows that are kept."""


def token_batch(rows: pd.DataFrame, pad_id: int) -> DataProto:
    """Samples before grading: prompts padded left, responses padded right, uid and sample of each row, and references
    of the media in its prompt. An episode's response is all that follows its prompt; its response_mask has gaps where
    the environment speaks."""
    prompts = _padded(rows["prompt_token_ids"].tolist(), pad_id, np.int64, left=True)
    responses = _padded(rows["token_ids"].tolist(), pad_id, np.int64)
    prompt_mask = _padded([np.ones(len(ids)) for ids in rows["prompt_token_ids"]], 0, np.int64, left=True)
    seen = _padded([np.ones(len(ids)) for ids in rows["token_ids"]], 0, np.int64)
    response_mask = _padded(rows[SAMPLED].tolist(), 0, np.int64) if SAMPLED in rows else seen
    tensors = {
        "prompts": prompts,
        "responses": responses,
        "attention_mask": torch.cat([prompt_mask, seen], 1),
        "response_mask": response_mask,
        "engine_log_probs": _padded(rows["log_probs"].tolist(), 0.0, np.float32),
    }
    if "canvas" in rows:  # of masked-diffusion engines: all of it, and each token's entropy when it was uncovered
        tensors["canvas"] = _padded(rows["canvas"].tolist(), pad_id, np.int64)
        tensors["entropies"] = _padded(rows["token_entropies"].tolist(), 0.0, np.float32)
    columns = {"uid": rows["slot"].tolist(), "sample": rows["sample"].tolist()}
    if "media_references" in rows:
        columns["media_references"] = [list(row) for row in rows["media_references"]]
    return DataProto.from_dict(tensors, columns)


def sequence_batch(sequences: list[list[int]]) -> DataProto:
    """Sequences of token ids as a batch whose responses are all tokens but the first."""
    after = [ids[1:] for ids in sequences]
    rows = {"prompt_token_ids": [ids[:1] for ids in sequences], "token_ids": after, "log_probs": after}
    return token_batch(pd.DataFrame({**rows, "slot": range(len(after)), "sample": 0}), 0)


def as_sampled(batch: DataProto) -> DataProto:
    """The engine's log-probs in place of the learner's, and −log p as each token's entropy (nats): new fields only.

    The mean of −log p over samples is the entropy; for a single token it is a noisy estimate.
    """
    log_probs = batch.tensor("engine_log_probs")
    return DataProto.from_dict({"old_log_probs": log_probs, "entropies": -log_probs})


def graded(batch: DataProto, rows: pd.DataFrame) -> DataProto:
    """A batch with the grades and reward parts of its rows, which are given in its order."""
    kept = {*OF_GRADERS, *function_columns(rows)}
    batch.non_tensor_batch |= DataProto.from_dict(
        non_tensors={
            "global_id": rows["id"].tolist(),
            # A column of a table has one type; data sets without answers have no column.
            "ground_truth": [answer_text(answer) for answer in rows.get("answer", [""] * len(rows))],
            "accuracy": rows["accuracy"].to_numpy(dtype=float, na_value=np.nan).tolist(),
            "format": rows["format"].tolist(),
            "truncated": (rows["finish_reason"] == "length").tolist(),
            "tokens": rows["tokens"].tolist(),
            **{str(name): rows[name].tolist() for name in rows if name in kept or str(name).startswith(PART)},
        }
    ).non_tensor_batch
    batch.meta_info["global_token_num"] = batch.tensor("attention_mask").sum(1).tolist()
    return batch


def learner_rows(rollouts: list[pd.DataFrame], problems: Problems, slots: list[int]) -> pd.DataFrame:
    """Samples as the learner is given them, without greedy answers; with `slots`, of these groups only."""
    rows = sampled_rows(rollouts, problems)
    return rows[(rows["sample"] != GREEDY) & (rows["slot"].isin(slots) if slots else True)]


def measured_batch(rows: pd.DataFrame, measured: list[DataProto], pad_id: int) -> DataProto:
    """Samples with what the learner has measured of them, one part of the rows after the other, each as wide as its
    longest response."""
    batch = token_batch(rows, pad_id)
    width, fields = batch.tensor("responses").shape[1], {}
    for name in [name for name in measured[0].fields if name not in batch.fields]:
        parts = [part.tensor(name) for part in measured]
        if name != "mask_seeds":  # which are of whole rows
            parts = [torch.nn.functional.pad(part, (0, width - part.shape[-1])) for part in parts]
        fields[name] = torch.cat(parts)
    return batch.union(DataProto.from_dict(fields))


def select_rows(batch: DataProto, rows: pd.DataFrame) -> DataProto:
    """The rows (slot, sample) of a batch that `rows` names, in its order. Raises KeyError for others."""
    names = zip(*batch.require("uid", "sample"), strict=True)
    place = {name: row for row, name in enumerate(names)}
    return batch[[place[name] for name in zip(rows["slot"], rows["sample"], strict=True)]]


def readable_rows(batch: DataProto) -> pd.DataFrame:
    """One row a sample: everything known of it but the tensors."""
    columns = {name: list(values) for name, values in batch.non_tensor_batch.items()}
    return pd.DataFrame(columns).rename(columns={"global_id": "id", "uid": "slot"})


def _padded(sequences: list[Any], fill: float, dtype: Any, left: bool = False) -> Tensor:
    tensors = [torch.from_numpy(np.array(sequence, dtype=dtype)) for sequence in sequences]
    return pad_sequence(tensors, batch_first=True, padding_value=fill, padding_side="left" if left else "right")
