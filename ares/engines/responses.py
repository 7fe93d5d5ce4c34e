"""Responses as text: without special tokens, but with the tags around thoughts and calls, also where they are special.

Not covered: reading the tags (rewards/thinking.py, ares/environments/call_formats.py).
"""

from collections.abc import Iterable
from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from rewards.thinking import TAGS, with_opening_tag

MARKERS = {f"<{closing}{tag}>" for tag in (*TAGS, "tool_call") for closing in ("", "/")}
END = 32
"""Tokens of a prompt in which a tag at its end has room."""


@lru_cache(2)
def silent_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[frozenset[int], bool]:
    """The tokens that decode to nothing, and whether they are all of the special ones."""
    special = {token: each.content for token, each in tokenizer.added_tokens_decoder.items() if each.special}
    special |= zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    silent = frozenset(token for token, content in special.items() if content not in MARKERS)
    return silent, len(silent) == len(special)


def response_texts(tokenizer: PreTrainedTokenizerBase, responses: list[list[int]]) -> list[str]:
    """The text of each response."""
    silent, _ = silent_tokens(tokenizer)
    return tokenizer.batch_decode([[token for token in ids if token not in silent] for ids in responses])


def opened_texts(tokenizer: PreTrainedTokenizerBase, prompts: Iterable[list[int]], texts: Iterable[str]) -> list[str]:
    """Responses to prompts, after the thinking tag with which a template has ended the prompt."""
    ends = tokenizer.batch_decode([ids[-END:] for ids in prompts])
    return [with_opening_tag(*each) for each in zip(ends, texts, strict=True)]
