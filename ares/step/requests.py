"""Requests to engines: one row per response, with the seed of its draws.

Covered: the rows of a draw and the engine calls they make; the table of responses drawn in parts (rollout.parts), of
several steps, in which a response stays until its step takes it. Not covered: which policy draws which part
(flows/draw.py), sampling (ares/engines), second turns (ares/step/second_turn.py).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from algorithms.keys import derive_seed
from ares.config import RolloutConfig
from ares.engines import Request, SamplingSettings
from ares.grading import ID_COLUMNS
from ares.step.rows import GREEDY


def requested_rows(
    problems: pd.DataFrame, first_slot: int, n: int, greedy: bool, key: tuple[int, str, int | str]
) -> pd.DataFrame:
    """One row per response to sample: id, slot, sample, prompt_token_ids, seed, media references, stop strings.

    problems: slot by slot. greedy: add a greedy answer to each. key: seed of the run, purpose, moment.
    """
    samples = ([GREEDY] if greedy else []) + list(range(n))
    nothing = pd.Series([()] * len(problems), index=problems.index)
    rows = pd.DataFrame(
        {
            "id": problems["id"],
            "slot": range(first_slot, first_slot + len(problems)),
            "prompt_token_ids": problems["prompt_token_ids"],
            "media_references": problems.get("media_references", nothing).map(tuple),
            "stops": problems.get("stops", nothing).map(tuple),
        }
    )
    rows = rows.iloc[np.repeat(np.arange(len(rows)), len(samples))].reset_index(drop=True)
    rows["sample"] = samples * len(problems)
    names = zip(rows["slot"], rows["id"], rows["sample"], strict=True)
    return rows.assign(seed=[derive_seed(*key, *name) for name in names])


def begun_rows(requested: pd.DataFrame, step: int) -> pd.DataFrame:
    """Responses of a step without tokens yet: id, slot, sample, seed, step, finish_reason, token_ids, log_probs."""
    rows = requested[[*ID_COLUMNS, "seed"]].assign(step=step, finish_reason="length")
    nothing: dict[str, Any] = {"token_ids": np.empty(0, np.int32), "log_probs": np.empty(0, np.float32)}
    return rows.assign(**{name: [empty] * len(rows) for name, empty in nothing.items()})


def asked_rows(under_way: pd.DataFrame, problems: pd.DataFrame) -> pd.DataFrame:
    """Requests to continue unfinished responses: each prompt ends with the `begun` tokens of its response.

    problems: of these rows, row by row.
    """
    asked = under_way.assign(begun=under_way["token_ids"].map(len))
    prompts = zip(problems["prompt_token_ids"], under_way["token_ids"], strict=True)
    asked["prompt_token_ids"] = [[*prompt, *own.tolist()] for prompt, own in prompts]
    if "stops" in problems:
        asked["stops"] = problems["stops"].tolist()
    return asked[asked["finish_reason"] != "stop"]


def continue_rows(under_way: pd.DataFrame, places: pd.Index, answers: pd.DataFrame) -> pd.DataFrame:
    """The table with answers (token_ids, log_probs, finish_reason) appended to the rows at `places`."""
    columns = {name: under_way[name].tolist() for name in ("token_ids", "log_probs", "finish_reason")}
    for place, answer in zip(places, answers.to_dict("records"), strict=True):
        for name in ("token_ids", "log_probs"):
            columns[name][place] = np.concatenate([columns[name][place], answer[name]])
        columns["finish_reason"][place] = answer["finish_reason"]
    return under_way.assign(**columns)


def engine_calls(
    rows: pd.DataFrame, temperature: float, config: RolloutConfig, denoising_steps: int | None = None
) -> Iterator[tuple[pd.DataFrame, list[Request], SamplingSettings]]:
    """The engine calls for rows, sampled and greedy ones apart: each with its rows, requests and settings.

    With a column `begun`, one more part of each response is requested.
    """
    for sampled, part in rows.groupby((rows["sample"] != GREEDY).to_numpy(), sort=False):  # a series would be printed
        media, stops = (part.get(name, [()] * len(part)) for name in ("media_references", "stops"))
        begun = part.get("begun", [0] * len(part))
        asked = zip(part["prompt_token_ids"], part["seed"], media, stops, begun, strict=True)
        requests = [Request(prompt, seed, tuple(shown), tuple(stop), had) for prompt, seed, shown, stop, had in asked]
        drawn_at, top_p = (temperature, config.top_p) if sampled else (0.0, 1.0)
        limit = config.max_response_length // (config.parts if "begun" in part else 1)
        yield part, requests, SamplingSettings(drawn_at, top_p, limit, denoising_steps)
