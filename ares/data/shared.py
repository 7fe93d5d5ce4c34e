"""What train and held-out sets share: prompts, counted before a run, and n-grams of words, searched by
`ares data check` (decontamination).

Covered: texts that are equal but for case, spaces, line breaks and closing punctuation; equal runs of NGRAM words, and
shorter texts as a whole. Not covered: paraphrases, translations, renamed variables, problems that
differ in one number.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

_CLOSING = re.compile(r"(?: |(?<![.,:;?]))[.,:;?]++(?=[ <]|$)| (?=<)")
"""In a text with single spaces: punctuation at the end of a word, and a space before `<`, as templates have it. A point
within a number stays, and an exclamation mark, since 5! is a number."""
NGRAM = 13
"""Words, as in GPT-3's decontamination (Brown et al. 2020, appendix C)."""
_WORD = re.compile(r"\w+")


def shared_prompts(train: Sequence[str], held_out: Sequence[str]) -> np.ndarray:
    """Which train prompts [N] (bool) are held out too: the same text but for case, spaces and closing punctuation."""
    alike = {normalised(text) for text in held_out}
    return np.array([normalised(text) in alike for text in train], dtype=bool)


def normalised(text: str) -> str:
    """The text without differences that do not change a problem: case, spaces, closing punctuation, Unicode form."""
    folded = unicodedata.normalize("NFC", text).casefold()  # NFKC would make x² x2
    return " ".join(_CLOSING.sub("", " ".join(folded.split())).split())


def overlaps(texts: Sequence[str], held_out: Sequence[str]) -> list[int | None]:
    """For each text the index of the held-out text with which it shares its first n-gram; None: of none."""
    owner_of: dict[str, int] = {}
    for owner, text in enumerate(held_out):
        for gram in _grams(text):
            owner_of.setdefault(gram, owner)
    return [next((owner_of[gram] for gram in _grams(text) if gram in owner_of), None) for text in texts]


def _grams(text: str) -> Iterator[str]:
    """Every run of NGRAM words; a shorter text is one run."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    for start in range(max(len(words) - NGRAM, 0) + 1):
        yield " ".join(words[start : start + NGRAM])
