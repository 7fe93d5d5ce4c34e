"""Prompts as the model will see them: their lengths in tokens, and a few of them in full with special tokens.

Covered: applying chat template and tokenizer to checked rows; of a large set, to a sample. Not covered: checking the
rows (ares/data/check.py), the tokens of pictures.
"""

from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig
from ares.data.chats import check_template, rendered
from ares.data.tables import DataError
from ares.data.vision import in_parts

MEASURED = 5_000
"""Rows of a large set that are measured, besides every row that may be overlong."""
Row = int | str
Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class SeenPrompt:
    """One prompt in full."""

    row: Row
    text: str
    """The prompt decoded from its tokens; without a tokenizer the messages with their roles."""
    tokens: int | None = None
    special: list[str] = field(default_factory=list)
    """The special tokens in it."""


@dataclass
class SeenPrompts:
    """The prompts of a set after templating and tokenising."""

    lengths: list[int] = field(default_factory=list)
    """Tokens of the prompts that were measured."""
    overlong: set[Row] = field(default_factory=set)
    """Rows beyond data.max_prompt_length."""
    wrong: dict[Row, str] = field(default_factory=dict)
    """Rows that the chat template cannot render, and why."""
    examples: list[SeenPrompt] = field(default_factory=list)
    """The first, the shortest and the longest prompt that is kept."""


def see(
    conversations: dict[Row, Messages], tokenizer: PreTrainedTokenizerBase, config: DataConfig, vision: bool
) -> SeenPrompts:
    """Render and tokenise the prompts. Raises DataError if there is no usable chat template."""
    check_template(tokenizer, config.chat_template_kwargs)
    seen = SeenPrompts()
    texts: dict[Row, str] = {}
    for row, messages in conversations.items():
        try:
            parts = in_parts(messages)[0] if vision else messages
            texts[row] = rendered(tokenizer, parts, "", config.chat_template_kwargs)
        except DataError as error:
            seen.wrong[row] = str(error).removeprefix(": ")
    rows = _to_measure(texts, config.max_prompt_length)
    token_ids = (
        tokenizer([texts[row] for row in rows], add_special_tokens=False, verbose=False)["input_ids"] if rows else []
    )
    seen.lengths = [len(ids) for ids in token_ids]
    seen.overlong = {row for row, length in zip(rows, seen.lengths, strict=True) if length > config.max_prompt_length}
    for row in _examples({row: text for row, text in texts.items() if row not in seen.overlong}):
        ids = tokenizer(texts[row], add_special_tokens=False, verbose=False)["input_ids"]
        special = {
            str(tokenizer.added_tokens_decoder[token]) for token in ids if token in tokenizer.added_tokens_decoder
        }
        text = str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
        seen.examples.append(SeenPrompt(row, text, len(ids), sorted(special)))
    return seen


def spoken_of(conversations: dict[Row, Messages]) -> list[SeenPrompt]:
    """Examples without a tokenizer: the messages."""
    texts = {
        row: "\n".join(f"{message['role']}: {message['content']}" for message in messages)
        for row, messages in conversations.items()
    }
    return [SeenPrompt(row, texts[row]) for row in _examples(texts)]


def _to_measure(texts: dict[Row, str], limit: int) -> list[Row]:
    """All rows of a small set; of a large one a regular sample, and those that may have more tokens than `limit`.

    A token is at least one byte, but a normaliser may expand text: half the limit in bytes already counts as too long.
    """
    every = max(len(texts) // MEASURED, 1)
    return [
        row
        for number, (row, text) in enumerate(texts.items())
        if number % every == 0 or 2 * len(text.encode(errors="replace")) > limit
    ]


def _examples(texts: dict[Row, str]) -> list[Row]:
    if not texts:
        return []
    by_length = sorted(texts, key=lambda row: len(texts[row]))
    return list(dict.fromkeys([next(iter(texts)), by_length[0], by_length[-1]]))
