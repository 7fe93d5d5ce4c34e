"""Conversations of clients that send all messages each time and keep no tokens: episodes, exact to the token.

    request 1: messages                                    → prompt                              + sampled
    request 2: messages, our answer, results of tools      → prompt + sampled + what is between  + sampled

A request whose messages begin with those of an earlier one and its answer continues that episode: what was sampled is
not rendered again. Any other begins an episode: also one that changes the history, or adds more than a message of a
user or results of tools. Not covered: sampling and the protocol (ares/serving.py).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedTokenizerBase

from ares.config import ConfigError
from ares.data import DataError, TurnTemplate, client_chat, rendered
from ares.environments import Message, read_following, strip_messages

MOST_TOKENS = 10_000_000
"""Of episodes that are remembered, one for each answer (at most 80 bytes a token); then all are forgotten."""


@dataclass(frozen=True)
class Episode:
    """An episode up to an answer, or up to where the next one begins; as in a run's rollouts."""

    prompt_token_ids: list[int]
    token_ids: tuple[int, ...] = ()
    """Everything after the prompt."""
    log_probs: tuple[float, ...] = ()
    """0 where nothing was sampled."""
    sampled: tuple[bool, ...] = ()
    finish_reason: str = ""
    turns: int = 0

    def __len__(self) -> int:
        """Tokens, the prompt's among them."""
        return len(self.prompt_token_ids) + len(self.token_ids)

    def then(self, token_ids: Sequence[int], log_probs: Sequence[float] | None = None) -> "Episode":
        """The episode with more tokens: sampled ones, if they have log-probs."""
        sampled, log_probs = log_probs is not None, [0.0] * len(token_ids) if log_probs is None else log_probs
        return replace(
            self,
            token_ids=(*self.token_ids, *map(int, token_ids)),
            log_probs=(*self.log_probs, *map(float, log_probs)),
            sampled=(*self.sampled, *[sampled] * len(token_ids)),
        )


class Conversations:
    """The answers that were given, and the episodes that they end."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, template: Mapping[str, Any], call_format: str, longest: int
    ) -> None:
        """template: data.chat_template_kwargs. longest: tokens of a prompt and its response."""
        self._tokenizer, self._call_format, self._longest = tokenizer, call_format, longest
        self._template = template
        self.episodes: dict[str, Episode] = {}
        """By the id of the last answer."""
        self._ids: dict[str, list[str]] = {}
        """By the digest of the messages that end with that answer: several clients may have the same. Those that nobody
        has continued come first."""
        self._tokens = 0

    def begin(self, messages: list[Message], tools: list[Message]) -> Episode:
        """The episode up to where the answer to a request begins. Raises DataError."""
        answered = 1 + max((place for place, each in enumerate(messages) if each["role"] == "assistant"), default=-1)
        known = self._ids.get(_digest(messages[:answered], tools), [])
        following = read_following(messages[answered:])
        if known and following is not None:
            known.append(known.pop(0))
            episode = self.episodes[known[-1]]
            last = episode.token_ids[-1] if episode.finish_reason == "stop" else None
            try:
                template = TurnTemplate(self._tokenizer, {**self._template, "tools": tools or None})
                return episode.then(template.following(following, last, self._longest)[1])
            except (ConfigError, DataError):  # the template changes what was said: rendered again, a new episode
                pass
        asked, settings = client_chat(messages, tools, self._tokenizer, self._template, self._call_format)
        prompt = rendered(self._tokenizer, asked, settings)
        return Episode(self._tokenizer(prompt, add_special_tokens=False)["input_ids"])

    def add(self, name: str, messages: list[Message], tools: list[Message], episode: Episode) -> None:
        """Remember an episode by the id of the answer with which its messages end."""
        self._tokens += len(episode)
        if self._tokens > MOST_TOKENS:
            self.episodes.clear()
            self._ids.clear()
            self._tokens = len(episode)
        self.episodes[name] = episode
        self._ids.setdefault(_digest(messages, tools), []).insert(0, name)


def _digest(messages: list[Message], tools: list[Message]) -> str:
    return hashlib.sha256(json.dumps([strip_messages(messages), tools], sort_keys=True).encode()).hexdigest()
