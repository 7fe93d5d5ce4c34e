"""Problems shared by train and held-out sets: counted, reported and left out on request; runs of 13 words."""

import logging
import time
from pathlib import Path

import pytest

from ares.data.problems import DataError
from ares.data.shared import NGRAM, normalised, overlaps, shared_prompts
from ares.runs.run import Run
from tests.ares.builders import config
from tests.ares.data.code_rows import written

TRAIN = ["What is 1+1?", "what  is\n1+1", "What is 1+2?", "What is 3.5?", "What is 35?"]
HELD_OUT = ["What is 1+1?", "WHAT IS 35"]


def posed(path: Path, prompts: list[str], name: str) -> Path:
    rows = ({"id": f"{name}{place}", "prompt": prompt, "answer": "1"} for place, prompt in enumerate(prompts))
    return written(path, *rows)


def settings(folder: Path, *more: str) -> list[str]:
    train = posed(folder / "train.jsonl", TRAIN, "t")
    held_out = posed(folder / "heldout.jsonl", HELD_OUT, "h")
    return [f"data.train={train}", f"data.validation={held_out}", "rollout.prompts=2",
            "learner.global_batch_prompts=2", *more]  # fmt: skip


def test_prompts_are_compared_but_for_case_spaces_and_closing_punctuation() -> None:
    assert shared_prompts(TRAIN, HELD_OUT).tolist() == [True, True, False, False, True]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3.5", "35"),
        ("14-9", "149"),
        ("1,2", "1 2"),
        ("a b", "ab"),
        ("x", "y"),
        ("5!", "5"),
        ("(n+1)!", "(n+1)"),
        ("5!!", "5!"),
        ("x² = 4", "x2 = 4"),
    ],
)
def test_what_may_change_a_problem_is_kept(one: str, other: str) -> None:
    assert normalised(f"What is {one}?") != normalised(f"What is {other}?")


def test_a_long_run_of_dots_or_blanks_takes_no_longer_than_its_length() -> None:
    """16,000 dots, as in a table of contents, took 15 s."""
    began = time.process_time()
    assert normalised(f"a{'.' * 16_000}b") == f"a{'.' * 16_000}b"
    assert normalised(f"a{' ' * 16_000}b") == "a b"
    assert time.process_time() - began < 1


def test_what_is_shared_is_said_and_a_setting_drops_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run, _ = Run.check(config(*settings(tmp_path)), "all", tmp_path)
    assert len(run.train_set) == 5
    assert f"train.jsonl: 3 prompts are held out in {tmp_path}/heldout.jsonl too; data.drop_shared=true" in caplog.text
    # A problem counts as held out even where only the first ones are evaluated on.
    dropping = settings(tmp_path, "data.drop_shared=true", "validation.max_prompts=1")
    run, _ = Run.check(config(*dropping), "less", tmp_path)
    assert run.train_set.frame["id"].tolist() == ["t2", "t3"]
    assert run.validation_set.frame["id"].tolist() == ["h0"]


def test_a_train_set_that_is_held_out_whole_is_refused(tmp_path: Path) -> None:
    same = settings(tmp_path, f"data.validation={tmp_path / 'train.jsonl'}", "data.drop_shared=true")
    with pytest.raises(DataError, match="all 5 prompts are held out too"):
        Run.check(config(*same), "none", tmp_path)


def test_every_held_out_set_is_compared_and_evaluated_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = settings(tmp_path)
    other = posed(tmp_path / "other.jsonl", ["What is 1+2?", "What is 9?"], "o")
    sets = f"data.validation={{one: {tmp_path / 'heldout.jsonl'}, two: {other}}}"
    chosen = config(*given, sets, "data.drop_shared=true", "rollout.prompts=1", "learner.global_batch_prompts=1")
    run, _ = Run.check(chosen, "two", tmp_path)
    assert run.train_set.frame["id"].tolist() == ["t3"]
    assert run.validation_set.frame["id"].tolist() == ["one/h0", "one/h1", "two/o0", "two/o1"]


def test_only_the_first_rows_are_trained_on(tmp_path: Path) -> None:
    run, _ = Run.check(config(*settings(tmp_path, "data.limit=3")), "three", tmp_path)
    assert run.train_set.frame["id"].tolist() == ["t0", "t1", "t2"]


# ---- decontamination ----------------------------------------------------------------------------------------------

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
