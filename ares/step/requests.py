"""What an engine is asked: one row per response, with the key of its draws; second turns with prompts of their own.

Covered: rows of a draw, and the calls that they make. Not covered: sampling (ares/engines), what second turns are told
(ares/step/second_turn.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from transformers import PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from ares.config import RolloutConfig, SecondTurnConfig
from ares.engines import Request, SamplingSettings
from ares.grading import ID_COLUMNS
from ares.step.rows import with_scores
from ares.step.second_turn import second_turns
from ares.step.slots import GREEDY

PROMPT = ["prompt", "prompt_token_ids"]


def requested_rows(
    problems: pd.DataFrame, first_slot: int, n: int, greedy: bool, key: tuple[int, str, int | str]
) -> pd.DataFrame:
    """One row per response to sample: id, slot, sample, prompt_token_ids, the seed of its draws, what it shows, where
    it may stop.

    problems: those that are asked, slot by slot. greedy: one greedy answer more. key: seed of the run, purpose, moment.
    """
    samples = ([GREEDY] if greedy else []) + list(range(n))
    media = problems["media_references"] if "media_references" in problems else [()] * len(problems)
    stops = problems["stops"] if "stops" in problems else [()] * len(problems)
    asked = zip(problems["id"], problems["prompt_token_ids"], media, stops, strict=True)
    return pd.DataFrame(
        {
            "id": name,
            "slot": slot,
            "sample": sample,
            "prompt_token_ids": prompt,
            "seed": derive_seed(*key, slot, name, sample),
            "media_references": tuple(shown),
            "stops": tuple(stops_at),
        }
        for slot, (name, prompt, shown, stops_at) in enumerate(asked, first_slot)
        for sample in samples
    )


def second_turn_rows(
    rollout: pd.DataFrame, scores: pd.DataFrame, problems: pd.DataFrame, tokenizer: PreTrainedTokenizerBase,
    settings: SecondTurnConfig, key: tuple[int, str, int | str], template_settings: Mapping[str, Any],
) -> pd.DataFrame:  # fmt: skip
    """One row per second turn: id, slot, sample, its own prompt and prompt_token_ids, the seed of its draws.

    rollout, scores: the first turns; problems: theirs, row by row. template_settings: data.chat_template_kwargs.
    """
    turns = second_turns(with_scores(rollout, scores), problems, tokenizer, settings, template_settings)
    if turns.empty:
        return turns.reindex(columns=[*ID_COLUMNS, *PROMPT, "seed"])
    names = zip(turns["slot"], turns["id"], turns["sample"], strict=True)
    return turns.assign(seed=[derive_seed(*key, *name) for name in names])


def engine_calls(
    rows: pd.DataFrame, temperature: float, config: RolloutConfig
) -> Iterator[tuple[pd.DataFrame, list[Request], SamplingSettings]]:
    """The calls that rows make: sampled ones and greedy ones apart, each with its rows, requests and settings."""
    for sampled, part in rows.groupby(rows["sample"] != GREEDY, sort=False):
        media, stops = (part.get(name, [()] * len(part)) for name in ("media_references", "stops"))
        asked = zip(part["prompt_token_ids"], part["seed"], media, stops, strict=True)
        requests = [Request(prompt, seed, tuple(shown), tuple(stops_at)) for prompt, seed, shown, stops_at in asked]
        drawn_at, top_p = (temperature, config.top_p) if sampled else (0.0, 1.0)
        yield part, requests, SamplingSettings(drawn_at, top_p, config.max_response_length)
