"""Conversations of clients that send all messages each time and keep no tokens: episodes, exact to the token.

    request 1: messages                                    → prompt                              + sampled
    request 2: messages, our answer, results of tools      → prompt + sampled + what is between  + sampled

A request whose messages begin with those of an earlier one and its answer continues that episode: what was sampled is
not rendered again. Any other begins an episode: also one that changes the history, or adds more than a message of a
user or results of tools. Not covered: sampling and the protocol (ares/serving.py).
"""

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedTokenizerBase

from ares.config import ConfigError, DataConfig
from ares.data import DataError, TurnTemplate, chat_with_tools, conversation, rendered, show_tools
from ares.environments import Call, parse_calls

MOST_TOKENS = 10_000_000
"""Of episodes that are remembered, one for each answer (80 bytes a token); then the oldest are forgotten."""
Message = dict[str, Any]


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
    continues: str = ""
    """The id of the answer before this one."""

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
        self._data = DataConfig(train="served", chat_template_kwargs=dict(template), system_prompt=None)
        self.episodes: dict[str, Episode] = {}
        """By the id of the last answer, those that were continued or given last at the end."""
        self._ids: dict[str, list[str]] = {}
        """By the digest of the messages that end with that answer: several clients may have the same."""
        self._continued: set[str] = set()
        self._tokens = 0

    def begin(self, messages: list[Message], tools: list[Message]) -> Episode:
        """The episode up to where the answer to a request begins. Raises DataError."""
        answered = 1 + max((place for place, each in enumerate(messages) if each["role"] == "assistant"), default=-1)
        known = self._ids.get(_digest(messages[:answered], tools), [])
        continues = next((each for each in known if each not in self._continued), known[-1] if known else "")
        roles = [each["role"] for each in messages[answered:]]
        if continues and (roles == ["user"] or set(roles) == {"tool"}):
            texts = tuple(each["content"] for each in messages[answered:])
            self._continued.add(continues)
            self.episodes[continues] = self.episodes.pop(continues)
            episode = replace(self.episodes[continues], continues=continues)
            last = episode.token_ids[-1] if episode.finish_reason == "stop" else None
            try:
                template = TurnTemplate(self._tokenizer, self._data.chat_template_kwargs | {"tools": tools or None})
                heard = template.following(texts[0] if roles == ["user"] else texts, last, self._longest)
                return episode.then(heard[1])
            except (ConfigError, DataError):  # the template changes what was said: rendered again, a new episode
                pass
        data, text = show_tools(self._data, self._tokenizer, tools, self._call_format)
        asked = conversation(chat_with_tools(messages, data, text), data)
        prompt = rendered(self._tokenizer, asked, data.chat_template_kwargs)
        return Episode(self._tokenizer(prompt, add_special_tokens=False)["input_ids"])

    def add(self, name: str, messages: list[Message], tools: list[Message], episode: Episode) -> None:
        """Remember an episode by the id of the answer with which its messages end."""
        self.episodes[name] = episode
        self._ids.setdefault(_digest(messages, tools), []).append(name)
        self._tokens += len(episode.token_ids)
        while self._tokens > MOST_TOKENS and len(self.episodes) > 1:
            oldest = next(iter(self.episodes))
            self._tokens -= len(self.episodes.pop(oldest).token_ids)
            self._continued.discard(oldest)
            left = {digest: [each for each in names if each != oldest] for digest, names in self._ids.items()}
            self._ids = {digest: names for digest, names in left.items() if names}

    def answer(self, response: str, has_tools: bool) -> Message:
        """A response as OpenAI's clients read it: with the calls of tools that it makes, if all of them can be read."""
        calls = parse_calls(response, self._call_format) if has_tools else []
        made = [
            {"id": secrets.token_hex(5)[:9], "type": "function",  # Mistral's templates want nine characters
             "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for call in calls if isinstance(call, Call)
        ]  # fmt: skip
        if not made or len(made) < len(calls):
            return {"role": "assistant", "content": response}
        said = response.partition("<tool_call>")[0].strip() if self._call_format == "hermes" else ""
        return {"role": "assistant", "content": said or None, "tool_calls": made}


def as_read(message: Message) -> Message:
    """A message as templates read it: its content is one text, the arguments of its calls are objects.

    Raises DataError, LookupError or TypeError.
    """
    content = message.get("content") or ""
    texts = [part.get("text") for part in content] if isinstance(content, list) else [content]
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"a content is text, not {content!r:.80}")
    told = {name: message[name] for name in ("name", "tool_call_id") if message.get(name)}
    if calls := message.get("tool_calls"):
        functions = [(call.get("id"), call["function"]["name"], call["function"]["arguments"]) for call in calls]
        told["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": function, "arguments": json.loads(arguments)}}
            for name, function, arguments in functions
        ]
    return {"role": message["role"], "content": "".join(texts), **told}


def _digest(messages: list[Message], tools: list[Message]) -> str:
    told = [{**each, "content": each["content"].strip()} for each in messages]  # some clients do
    return hashlib.sha256(json.dumps([told, tools], sort_keys=True).encode()).hexdigest()
