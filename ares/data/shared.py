"""Prompts that the train and the held-out set have in common: what is counted before a run, and can be left out of it.

Covered: equal texts, and texts that differ in case, spaces, line breaks and closing punctuation alone. Not covered:
paraphrases, and problems that differ in one number.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_CLOSING = re.compile(r"\s*[.,:;!?]+(?=[\s<]|$)|\s+(?=<)")
"""Punctuation at the end of a word, and space before `<`, as templates have it; a point within a number stays."""


@dataclass(frozen=True)
class SharedPrompts:
    """Which prompts of a train set are held out too."""

    exact: np.ndarray
    """bool, one a train prompt: the same text."""
    normalised: np.ndarray
    """bool: the same text but for case, spaces and closing punctuation; the exact ones are among them."""

    def __str__(self) -> str:
        return f"{self.exact.sum()} exactly, {self.normalised.sum()} but for case, spaces and closing punctuation"


def shared_prompts(train: Sequence[str], held_out: Sequence[str]) -> SharedPrompts:
    """Compare every train prompt with all held-out ones."""
    exact, alike = set(held_out), {normalised(text) for text in held_out}
    return SharedPrompts(
        np.array([text in exact for text in train], dtype=bool),
        np.array([normalised(text) in alike for text in train], dtype=bool),
    )


def normalised(text: str) -> str:
    """The text without what does not change a problem: case, spaces, closing punctuation, forms of a character."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_CLOSING.sub("", folded).split())
