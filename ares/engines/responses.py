"""Responses as text: without special tokens, but with the tags around thoughts and calls, also where they are special.

Not covered: reading the tags (rewards/thinking.py, ares/environments/call_formats.py).
"""

from functools import lru_cache

from transformers import PreTrainedTokenizerBase

from rewards.thinking import TAGS

MARKERS = {f"<{closing}{tag}>" for tag in (*TAGS, "tool_call") for closing in ("", "/")}


@lru_cache(2)
def silent_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[frozenset[int], bool]:
    """The tokens that decode to nothing, and whether they are all of the special ones."""
    special = {token: each.content for token, each in tokenizer.added_tokens_decoder.items() if each.special}
    special |= zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True)
    silent = frozenset(token for token, content in special.items() if content not in MARKERS)
    return silent, len(silent) == len(special)


def response_texts(tokenizer: PreTrainedTokenizerBase, responses: list[list[int]]) -> list[str]:
    """The text of each response."""
    silent, are_all = silent_tokens(tokenizer)
    if not are_all:
        responses = [[token for token in ids if token not in silent] for ids in responses]
    return tokenizer.batch_decode(responses, skip_special_tokens=are_all)
