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


def begun_rows(requested: pd.DataFrame) -> pd.DataFrame:
    """Responses without tokens yet: id, slot, sample, seed, finish_reason, token_ids, log_probs."""
    nothing: dict[str, Any] = {"token_ids": np.empty(0, np.int32), "log_probs": np.empty(0, np.float32)}
    return requested[[*ID_COLUMNS, "seed"]].assign(
        finish_reason="length", **{name: [empty] * len(requested) for name, empty in nothing.items()}
    )


def asked_rows(under_way: pd.DataFrame, problems: pd.DataFrame) -> pd.DataFrame:
    """Requests to go on after the tokens so far, which follow the prompt. problems: of these rows, row by row."""
    prompts = zip(problems["prompt_token_ids"], under_way["token_ids"], strict=True)
    asked = under_way.copy()
    asked["prompt_token_ids"] = [[*prompt, *own.tolist()] for prompt, own in prompts]
    return asked.assign(stops=problems["stops"].tolist()) if "stops" in problems else asked


def continue_rows(under_way: pd.DataFrame, places: pd.Index, answers: pd.DataFrame) -> pd.DataFrame:
    """The table with answers, of the rows at `places`: what is a list is appended, other columns are replaced."""
    columns = {str(name): under_way[name].tolist() for name in answers if name in under_way}
    for name, values in columns.items():
        for place, new in zip(places, answers[name], strict=True):
            old = values[place]
            values[place] = np.concatenate([old, new]) if isinstance(old, np.ndarray) else new
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
