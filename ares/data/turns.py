"""Turns: what a chat template writes between a response and the next one, as text and tokens.

    prompt₂ = prompt₁ + sampled₁ + following(observation₁) + …

Nothing that was sampled is rendered again: a template that treats earlier answers differently from the last one (Qwen3
drops their thoughts, Llama trims them) changes nothing here. Not covered: the first prompt (ares/data/problems.py),
tools in prompts (ares/data/chats.py), what a response calls (ares/environments).
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from transformers import AddedToken, PreTrainedTokenizerBase

from ares.config import TEMPLATE_LENGTH, ConfigError
from ares.data.chats import write_chat
from ares.data.sources import DataError

SAID = "It said,  so\n\nthat is what it said."
"""Stands for a response; upper and lower case, two spaces and an empty line show whether a template changes it."""


class TurnTemplate:
    """What a tokenizer's chat template writes after a response: its end, an observation, the next answer's beginning.

    settings: data.chat_template_kwargs. Raises ConfigError if the template changes or drops what an assistant said, and
    DataError if it raises. A limit: where turns are marked by ordinary text (Llama-2's [INST], Zephyr's <|user|>), an
    observation that holds the same text looks the same.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, settings: Mapping[str, Any]):
        self._tokenizer = tokenizer
        # The prompt has shown the tools. Mistral's templates would show them again before every message of a user.
        self._settings = {name: value for name, value in settings.items() if name != "tools"}
        self._shows_results = functools.cache(self._try_results)
        whole = self._render(["?"], False)
        if whole.count(SAID) != 1:
            raise ConfigError(f"{tokenizer.name_or_path}: the template changes what an assistant said: {whole!r:.200}")
        self._markup = _markup(tokenizer, whole)
        self._markup_begins = re.compile(f"(?s)(?={'|'.join(map(re.escape, self._markup.values()))}).")
        around = len(self._suffix([""], 0, None)[1])
        if around > TEMPLATE_LENGTH:
            raise ConfigError(
                f"{tokenizer.name_or_path}: the chat template writes {around} tokens around a user's message, more "
                f"than the {TEMPLATE_LENGTH} for which episodes have room"
            )

    def following(
        self, observation: str | tuple[str, ...], last_token: int | None, limit: int
    ) -> tuple[str, list[int]]:
        """Text and token ids of what follows a response, up to where the next one begins.

        observation: a user's message, or the results of tool calls. last_token: the response's last one if it ended by
        itself: it is not repeated; None: it was cut off, so what closes it is part of the text. limit: tokens of the
        observation, of which each result has an equal share; the model is told where it was cut off. Names of special
        tokens in an observation get a blank, which makes them plain text. At most limit + TEMPLATE_LENGTH ids.
        """
        calls = 0 if isinstance(observation, str) else len(observation)
        texts = [observation] if isinstance(observation, str) else list(observation) or [""]
        texts = [text.encode("utf-8", "replace").decode() for text in texts]  # half a surrogate pair is no text
        shown, room = limit, limit + TEMPLATE_LENGTH
        while True:
            text, ids = self._suffix([self._fitting(text, shown // len(texts)) for text in texts], calls, last_token)
            if len(ids) <= room:
                return text, ids
            if shown == 0:  # Saying what is left out takes too much itself.
                return self.following(_numbered(texts) if calls else "", last_token, limit)
            shown = max(0, shown - (len(ids) - room))

    def _suffix(self, texts: Sequence[str], calls: int, last_token: int | None) -> tuple[str, list[int]]:
        """The text after a response without the end token that the response has sampled, and its tokens."""
        after = self._after(texts, self._shows_results(calls))
        end = "" if last_token is None else str(self._tokenizer.decode([last_token]))
        if not end or not after.lstrip().startswith(end):
            return after, self._tokenise(after)
        text = after.lstrip().removeprefix(end)
        # Tokenised after the end token: many tokenizers put a space before the beginning of a text.
        ids = self._tokenise(end + text)
        return text, ids[1:] if ids[:1] == [last_token] else self._tokenise(text)

    def _tokenise(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def _try_results(self, calls: int) -> bool:
        """Whether as many results of tools are messages of their own, rather than one of a user."""
        results = [f"observation {number}." for number in range(calls)]
        try:
            after = self._after(results, True) if calls else ""
        except DataError:  # of a role that the template does not know
            return False
        return bool(after) and all(after.count(result) == 1 for result in results)

    def _after(self, texts: Sequence[str], as_results: bool) -> str:
        """What is written after the answer that precedes observations."""
        return self._render(texts, as_results).partition(SAID)[2]

    def _render(self, texts: Sequence[str], as_results: bool) -> str:
        said = {"role": "assistant", "content": SAID}
        shown = [{"role": "user", "content": texts[0] if len(texts) == 1 else _numbered(texts)}]
        if as_results:
            # Mistral's templates want ids of nine characters.
            shown = [
                {"role": "tool", "name": "tool", "tool_call_id": f"call{number:05}", "content": text}
                for number, text in enumerate(texts)
            ]
        return write_chat(self._tokenizer, [{"role": "user", "content": "?"}, said, *shown], self._settings)

    def _fitting(self, text: str, limit: int) -> str:
        """The beginning of a foreign text, of at most `limit` tokens, none of them special."""
        begun = text[: 16 * (limit + 1)]  # not all of a text of 100 MB is tokenised
        shown = self._markup_begins.sub(r"\g<0> ", begun)
        if not self._markup.keys().isdisjoint(self._tokenise(shown)):  # of a tokenizer that changes texts first
            shown = " ".join(begun)
        end = len(shown)
        while (count := len(self._tokenise(shown[:end]))) > limit:
            end = end * limit // count
        return shown if end == len(shown) and begun == text else f"{shown[:end]}… (cut off)"


def _markup(tokenizer: PreTrainedTokenizerBase, rendered: str) -> dict[int, str]:
    """Tokens that foreign text must not contain, by id: special ones, and added ones that the template writes.

    Added tokens may also be ordinary words or spaces, which stay what they are.
    """
    written = f"{tokenizer.chat_template}{rendered}"
    added = {token: each.content for token, each in tokenizer.added_tokens_decoder.items() if _is_markup(each, written)}
    special = dict(zip(tokenizer.all_special_ids, map(str, tokenizer.all_special_tokens), strict=True))
    return {token: name for token, name in (special | added).items() if len(name) > 1}


def _is_markup(token: AddedToken, written: str) -> bool:
    return token.special or (token.content in written and not token.content.replace(" ", "").isalnum())


def _numbered(results: Sequence[str]) -> str:
    return "\n".join(f"Result {number}: {result}" for number, result in enumerate(results, 1))
