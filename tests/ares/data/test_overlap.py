"""Decontamination: runs of 13 words that a text has in common with a held-out one."""

import numpy as np
import pytest

from ares.data.shared import NGRAM, overlaps

RUN = "given a list of whole numbers return the longest run that never falls"
assert len(RUN.split()) == NGRAM


@pytest.mark.parametrize(
    ("text", "other", "shared"),
    [
        (f"First. {RUN}, if any.", f"Hello! {RUN} and then more", True),
        (RUN.upper().replace(" ", ",  "), f"So: {RUN}.", True),
        (RUN.rpartition(" ")[0] + " rises", f"So: {RUN}.", False),
        (RUN.replace("longest", "shortest"), RUN, False),
        (RUN, RUN.rpartition(" ")[0], False),
        ("Print the sum.", "print THE sum", True),
        ("Print the sum.", "Print the sum. Twice.", False),
        (f"a {RUN.rpartition(' ')[0]}", f"{RUN.rpartition(' ')[2]} b", False),
    ],
)
def test_a_run_of_words_counts_whatever_stands_around_it(text: str, other: str, shared: bool) -> None:
    owners = overlaps(["something else entirely", text, "nothing"], ["no", other, "more words"])
    assert owners == [None, 1 if shared else None, None]


def test_no_run_leads_from_one_text_to_the_next() -> None:
    words = RUN.split()
    assert overlaps([" ".join(words[:7]), " ".join(words[7:])], [RUN]) == [None, None]
    assert overlaps([RUN], [" ".join(words[:7]), " ".join(words[7:])]) == [None]


@pytest.mark.parametrize(("texts", "others"), [([], []), (["a"], []), ([], ["a"]), ([""], ["a"])])
def test_sets_may_be_empty(texts: list[str], others: list[str]) -> None:
    assert overlaps(texts, others) == [None] * len(texts)


def test_it_finds_what_sets_of_runs_find() -> None:
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"w{number}" for number in range(4)])
    texts = [" ".join(rng.choice(vocabulary, rng.integers(1, 60))) for _ in range(150)]
    ours, theirs = texts[:100], texts[100:]

    def runs(text: str) -> set[tuple[str, ...]]:
        words = text.split()
        whole = [tuple(words)] if len(words) < NGRAM else []
        return {*whole, *(tuple(words[at : at + NGRAM]) for at in range(len(words) - NGRAM + 1))}

    # With four words, runs of 13 match rarely enough that both answers occur once some texts are partly copied.
    ours[:20] = [f"{text} {other[10:]}" for text, other in zip(ours[:20], theirs, strict=False)]
    wanted = [any(runs(text) & runs(other) for other in theirs) for text in ours]
    owners = overlaps(ours, theirs)
    assert [other is not None for other in owners] == wanted
    assert set(wanted) == {True, False}
    assert all(runs(ours[row]) & runs(theirs[other]) for row, other in enumerate(owners) if other is not None)
