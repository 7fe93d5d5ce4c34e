"""A run's environment: how it begins the problems of a data set, and how what it says becomes tokens.

    row ─▶ reset(row, seed) ─▶ prompt = the row's own, then the first observation     once, when the data is loaded
    response ─▶ step(text) ─▶ tokens between this response and the next               in every turn

Every sample of a problem begins alike, since its seed is the row's: its column `seed`, else one of its id. Not covered:
processes (ares/environments/pool.py), what templates write between turns (ares/data/turns.py).
"""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from ares.config import Config, DataConfig, EnvironmentConfig
from ares.data import DataError, TurnTemplate, place, show_tools
from ares.environments import Answer, EnvironmentPool, Episode
from rewards.child_process import plain

OPENING = "environment_opening"
"""Column of problems with JSON: the row as the environment is given it, its seed, the digest of its first reply."""


class OpenEnvironment:
    """The environment of a run."""

    def __init__(self, settings: EnvironmentConfig, data: DataConfig, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raises ConfigError if it cannot be loaded, or the chat template cannot go on after a response."""
        self.settings = settings
        self.pool = EnvironmentPool(settings)
        try:
            tools = self.pool.describe()
            self.data = show_tools(data, tokenizer, tools, settings.call_format) if tools else data
            self._template = TurnTemplate(tokenizer, self.data.chat_template_kwargs)
        except BaseException:
            self.pool.close()
            raise

    @classmethod
    def of(cls, config: Config, tokenizer: PreTrainedTokenizerBase) -> "OpenEnvironment | None":
        """The environment of a configuration, if it has one."""
        return None if config.environment is None else cls(config.environment, config.data, tokenizer)

    def begin(self, raw: pd.DataFrame, source: Any, config: DataConfig) -> pd.DataFrame:
        """Rows of a data set with the first observation in their prompt. Raises DataError naming the first row whose
        environment fails."""
        rows = [plain({str(name): value for name, value in row.items()}) for row in raw.to_dict("records")]
        ids = [str(row.get(config.id_key, number)) for number, row in enumerate(rows)]
        seeds = [seed_of(row, name) for row, name in zip(rows, ids, strict=True)]
        episodes = [
            Episode(f"opening/{number}", row, seed) for number, (row, seed) in enumerate(zip(rows, seeds, strict=True))
        ]
        answers = self.pool.reset(episodes)
        self.pool.end(episode.key for episode in episodes)
        openings, prompts = [], []
        for line, episode, answer in zip(raw.index, episodes, answers, strict=True):
            if answer.reply is None:
                raise DataError(f"{place(source, line)}: {answer.error}")
            openings.append(json.dumps({"row": episode.row, "seed": episode.seed, "heard": answer.reply.digest()}))
            prompts.append(with_observation(episode.row.get(config.prompt_key), str(answer.reply.observation)))
        begun = {OPENING: openings, config.prompt_key: prompts}
        return raw.drop(columns=list(begun), errors="ignore").join(pd.DataFrame(begun, index=raw.index, dtype=object))

    def following(self, answer: Answer, token_ids: np.ndarray, finish_reason: str) -> list[int]:
        """The tokens between a response and the next one; none if the episode is over."""
        if answer.reply is None or answer.reply.done:
            return []
        last = int(token_ids[-1]) if finish_reason == "stop" else None
        limit = self.settings.max_observation_length
        return self._template.following(answer.reply.observation, last, limit)[1]

    def close(self) -> None:
        """End its processes."""
        self.pool.close()


def begun_episode(problem: dict[Any, Any], key: str, said: Iterable[str], heard: Iterable[str]) -> Episode:
    """An episode of a problem. said: responses so far; heard: the digests of their replies."""
    opening = json.loads(problem[OPENING])
    return Episode(key, opening["row"], opening["seed"], tuple(said), (opening["heard"], *heard))


def seed_of(row: dict[str, Any], name: str) -> int:
    """The seed of a problem's environment: its own column `seed`, else one of its id."""
    given = row.get("seed")
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    return derive_seed("environment", name) % 2**32


def with_observation(prompt: Any, observation: str) -> Any:
    """A row's prompt (text, chat messages, or None) with the first observation at its end, as part of its last
    message: many templates refuse two messages of a user in a row."""
    if not observation:
        return prompt
    if not prompt:
        return observation
    if isinstance(prompt, list) and isinstance(prompt[-1], dict) and isinstance(prompt[-1].get("content"), str):
        last = {**prompt[-1], "content": f"{prompt[-1]['content']}\n\n{observation}"}
        return [*prompt[:-1], last]
    return f"{prompt}\n\n{observation}" if isinstance(prompt, str) else prompt
