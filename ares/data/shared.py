"""What train and held-out sets share: prompts, counted before a run, and n-grams of words, searched by
`ares data check --code` (decontamination).

Covered: equal texts, and texts that differ only in case, spaces, line breaks and closing punctuation; equal runs of
NGRAM words, and shorter texts as a whole. Not covered: paraphrases, translations, renamed variables, problems that
differ in one number.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

_CLOSING = re.compile(r"\s*[.,:;!?]+(?=[\s<]|$)|\s+(?=<)")
"""Punctuation at the end of a word, and space before `<`, as templates have it; a point within a number stays."""
NGRAM = 13
"""Words, as in GPT-3's decontamination (Brown et al. 2020, appendix C)."""
_WORD = re.compile(r"\w+")
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


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
    """The text without differences that do not change a problem: case, spaces, closing punctuation, Unicode form."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_CLOSING.sub("", folded).split())


def overlaps(texts: Sequence[str], held_out: Sequence[str]) -> np.ndarray:
    """For each text the index of the held-out text with which it shares its first n-gram, −1: none; int64."""
    words = [_words(text) for text in (*texts, *held_out)]
    grams, owner = _grams(words)
    is_ours = owner < len(texts)
    theirs, first = np.unique(grams[~is_ours], return_index=True)
    owners = np.full(len(texts), -1, dtype=np.int64)
    if not len(theirs) or not is_ours.any():
        return owners
    place = np.minimum(np.searchsorted(theirs, grams[is_ours]), len(theirs) - 1)
    hits = np.flatnonzero(theirs[place] == grams[is_ours])
    rows, earliest = np.unique(owner[is_ours][hits], return_index=True)
    owners[rows] = owner[~is_ours][first[place[hits[earliest]]]] - len(texts)
    return owners


def _words(text: str) -> list[str]:
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return words + [""] * (NGRAM - len(words))  # a short text has one run: all of it


def _grams(words: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
    """(64-bit hashes of all runs of NGRAM words within a text, the text of each)."""
    codes = _mixed(pd.factorize(np.array([word for each in words for word in each], dtype=object))[0])
    owner = np.repeat(np.arange(len(words)), [len(each) for each in words])
    count = len(codes) - NGRAM + 1
    hashes = np.zeros(max(count, 0), dtype=np.uint64)
    for offset in range(NGRAM):
        hashes = hashes * _MULTIPLIER + codes[offset : offset + count]
    within = owner[: len(hashes)] == owner[NGRAM - 1 :][: len(hashes)]
    return hashes[within], owner[: len(hashes)][within]


def _mixed(codes: np.ndarray) -> np.ndarray:
    """Small numbers spread over 64 bits (the end of splitmix64)."""
    bits = codes.astype(np.uint64) * _MULTIPLIER
    for shift, mixer in zip((30, 27), _MIXERS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * mixer
    return bits ^ (bits >> np.uint64(31))
