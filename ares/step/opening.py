"""A run's environment: how it begins the problems of a data set, and how what it says becomes tokens.

    row ─▶ reset(row, seed) ─▶ prompt = the row's own, then the first observation     once, when the data is loaded
    response ─▶ step(text) ─▶ tokens between this response and the next               in every turn

Every sample of a problem begins alike, since its seed is the row's: its column `seed`, else one made of the row. Not
covered: processes (ares/environments/pool.py), what templates write between turns (ares/data/turns.py).
"""

import json
from typing import Any

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from ares.config import Config, DataConfig, EnvironmentConfig
from ares.data import OPENING, DataError, TurnTemplate, chat_with_tools, client_chat, place, show_tools
from ares.environments import Answer, EnvironmentPool, Episode, Reply
from rewards.child_process import plain

AT_ONCE = 64
"""Episodes that are begun for their prompts: an agent's is a process."""


class OpenEnvironment:
    """The environment of a run."""

    def __init__(self, settings: EnvironmentConfig, data: DataConfig, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raises ConfigError if it cannot be loaded, or the chat template cannot go on after a response."""
        self.settings, self._tokenizer = settings, tokenizer
        self.pool = EnvironmentPool(settings)
        try:
            tools = self.pool.describe()
            self.data, self._tools_text = show_tools(data, tokenizer, tools, settings.call_format)
            self._template = TurnTemplate(tokenizer, self.data.chat_template_kwargs)
            added = tokenizer.added_tokens_decoder.values()
            self._special = [token.content for token in added if token.special and len(token.content) > 1]
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
        seeds = [seed_of(row, place(source, line)) for line, row in zip(raw.index, rows, strict=True)]
        episodes = [
            Episode(f"opening/{number}", row, seed) for number, (row, seed) in enumerate(zip(rows, seeds, strict=True))
        ]
        alike = self.settings.kind == "tools" and "environment" not in raw  # tools begin every row with nothing
        answers = self._first_replies(episodes[:1]) * len(episodes) if alike else self._first_replies(episodes)
        openings, prompts = [], []
        for line, episode, answer in zip(raw.index, episodes, answers, strict=True):
            if answer.reply is None:
                raise DataError(f"{place(source, line)}: {answer.error}")
            prompt, template = self._prompt(answer.reply, episode.row.get(config.prompt_key), place(source, line))
            if not prompt:
                raise DataError(f"{place(source, line)}: the row has no {config.prompt_key!r}, and its environment's "
                                "reset returns no observation: there is nothing to ask")  # fmt: skip
            known = {"row": episode.row, "seed": episode.seed, "heard": answer.reply.digest()}
            openings.append(json.dumps(known | template))
            prompts.append(prompt)
        begun = {OPENING: openings, config.prompt_key: prompts}
        return raw.drop(columns=list(begun), errors="ignore").join(pd.DataFrame(begun, index=raw.index, dtype=object))

    def _first_replies(self, episodes: list[Episode]) -> list[Answer]:
        """What begins episodes that are not played."""
        answers = []
        for start in range(0, len(episodes), AT_ONCE):
            some = episodes[start : start + AT_ONCE]
            answers += self.pool.reset(some)
            self.pool.end(episode.key for episode in some)
        return answers

    def _prompt(self, reply: Reply, of_row: Any, where: str) -> tuple[Any, dict[str, Any]]:
        """The prompt of a problem after its environment's first reply, and what an agent's adds to the row's opening.

        where: file and row. Raises DataError.
        """
        chat = reply.chat
        begun = [str(reply.observation)] if chat is None else [each["content"] for each in chat["messages"]]
        if special := next((token for token in self._special if token in "".join(begun)), None):
            raise DataError(f"{where}: the first observation holds the special token {special}")
        if chat is None:
            return chat_with_tools(with_observation(of_row, begun[0]), self.data, self._tools_text), {}
        template = self.data.chat_template_kwargs
        try:
            asked = client_chat(chat["messages"], chat["tools"], self._tokenizer, template, self.settings.call_format)
        except DataError as error:
            raise DataError(f"{where}: the agent's first request: {error}") from error
        return asked[0], {"template": {"tools": asked[1].get("tools")}}

    def answer(self, episodes: list[Episode], said: pd.DataFrame) -> tuple[list[Answer], list[list[int]]]:
        """The answers to a turn's responses (response, token_ids, finish_reason), and the tokens between each response
        and the next one."""
        answers = self.pool.step(episodes, said["response"].tolist())
        ends = zip(answers, said["token_ids"], said["finish_reason"], strict=True)
        return answers, [self._following(*each) for each in ends]

    def _following(self, answer: Answer, token_ids: np.ndarray, finish_reason: str) -> list[int]:
        if answer.reply is None or answer.reply.done:
            return []
        last = int(token_ids[-1]) if finish_reason == "stop" else None
        limit = self.settings.max_observation_length
        return self._template.following(answer.reply.observation, last, limit)[1]

    def close(self) -> None:
        """End its processes."""
        self.pool.close()


def seed_of(row: dict[str, Any], where: str) -> int:
    """The seed of a problem's environment: its own column `seed`, else one of the row itself. Raises DataError."""
    given = row.get("seed")
    if given is None:
        return derive_seed("environment", json.dumps(row, sort_keys=True)) % 2**32
    if isinstance(given, bool) or not isinstance(given, int | float) or not float(given).is_integer():
        raise DataError(f"{where}: the column seed is {given!r:.40}, and an environment's seed is a whole number")
    return int(given)


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
