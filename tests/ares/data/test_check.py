"""A data set is checked row by row: every fault is found, nothing good is refused, its own solutions are judged."""

from pathlib import Path
from typing import Any

import pytest

from ares.config import Needs
from ares.config.reward import CodeConfig
from ares.config.run import DataConfig
from ares.data.chats import odd_in_template
from ares.data.check import CheckReport, check_rows, compare_with_held_out
from ares.data.problems import DataError, load_problems
from ares.grading.trials import check_solutions
from sandbox import SandboxPool
from tests.ares.builders import tokenizer, with_template
from tests.ares.data.code_rows import verl, written
from tests.data_sets import data_set

MATH = {"id": "a", "prompt": "1+1=?", "answer": "2"}
CODE = {
    "id": "a",
    "prompt": "Write inc.",
    "test_cases": ["assert inc(1) == 2", "assert inc(2) == 3"],
    "solution": "def inc(x): return x + 1",
}


def rows_in(path: Path, rows: list[Any]) -> str:
    return str(written(path, *rows))


def checked(source: str, needs: Needs = "answer", model: Any = None, answer: str | None = None,
            **settings: Any) -> CheckReport:  # fmt: skip
    return check_rows(source, "train", DataConfig(train=source, **settings), needs, model, answer=answer)


def findings(found: CheckReport) -> list[tuple[int, str]]:
    return [(finding.row, finding.what) for finding in found.findings]


def judged(found: CheckReport) -> CheckReport:
    with SandboxPool() as pool:
        check_solutions(found, CodeConfig(), pool, lambda done, total: None)
    return found


TEMPLATES = {
    "{{ messages[0].role }}: answer": "leaves out what is asked: of '1+1=?' it makes 'user: answer'",
    "{{ raise_exception('System role\nnot supported') }}": "raises TemplateError on messages of user: System role not",
    "{% for message in %}": "raises TemplateSyntaxError on messages of user: ",
    "{{ messages[0].content + undefined_thing.name }}": "raises UndefinedError on messages of user: ",
    "{{ messages[0].content + 1 }}": "raises TypeError on messages of user: ",
}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_chat_template_that_raises_or_ignores_the_question_is_named(template: str, tmp_path: Path) -> None:
    source = rows_in(tmp_path / "rows.jsonl", [MATH, MATH | {"id": "b"}])
    broken = with_template(template)
    with pytest.raises(DataError) as caught:
        load_problems(source, "train", DataConfig(train=source), broken)
    assert str(caught.value).startswith(f"{source}:1: the chat template of ")
    assert TEMPLATES[template] in str(caught.value)
    assert "\n" not in str(caught.value)
    found = checked(source, model=broken)
    assert [row for row, what in findings(found) if TEMPLATES[template] in what] == [1, 2]


def test_a_template_that_trims_or_indents_asks_all_the_same(tmp_path: Path) -> None:
    source = rows_in(tmp_path / "rows.jsonl", [MATH | {"prompt": "  1 +\n\n1 = ?\n"}])
    for template in ("Q: {{ messages[0].content | trim }}", "Q: {{ messages[0].content | replace('\n\n', '\n') }}"):
        assert len(load_problems(source, "train", DataConfig(train=source), with_template(template))) == 1


def test_every_wrong_row_is_named_with_every_reason(tmp_path: Path) -> None:
    rows = [MATH, '{"id": ', MATH | {"prompt": " ", "answer": None}, {"prompt": "3+3=?", "answer": "6"}]
    found = checked(rows_in(tmp_path / "p.jsonl", rows))
    assert [(row, what.split(":")[0]) for row, what in findings(found)] == [
        (2, "not JSON"),
        (3, "id 'a' is a duplicate of row 1"),
        (3, "column 'answer' is missing or null. Name it with data.answer_key=…"),
        (3, "the prompt is empty"),
        (4, "column 'id' is missing or null"),
    ]
    assert (found.rows, found.good, found.counts()["rows with an error"]) == (4, False, 3)


def test_code_rows_with_invalid_tests_are_named(tmp_path: Path) -> None:
    rows = [
        CODE,
        CODE | {"id": "c", "test_cases": ["assert inc(1) == 2", "assert inc(1) ="]},
        CODE | {"id": "d", "test_cases": ["# assert nothing"]},
        CODE | {"id": "e", "setup": "def"},
        CODE | {"id": "f", "test_cases": '["assert'},
    ]
    found = checked(rows_in(tmp_path / "p.jsonl", rows), "tests")
    assert [(row, what[:20]) for row, what in findings(found)] == [
        (2, "test 2 does not pars"),
        (3, "test 1 has no statem"),
        (4, "setup does not parse"),
        (5, "test_cases is not re"),
    ]
    assert list(found.problems) == [1]


def test_rows_without_tests_are_listed_and_left_out_and_a_set_of_them_alone_is_refused(tmp_path: Path) -> None:
    rows = [CODE | {"id": str(number), "prompt": f"{number}", "test_cases": []} for number in range(30)]
    found = checked(rows_in(tmp_path / "p.jsonl", [*rows, CODE]), "tests")
    assert (found.good, found.trained_on, found.left_out["2 (1)"]) == (True, 1, "there is no test")
    counts = found.counts()
    assert (counts["rows"], counts["rows with an error"]) == (31, 0)
    assert counts["rows without tests, left out"].startswith("30: 1 (0), 2 (1), ")
    held_out = checked(rows_in(tmp_path / "h.jsonl", [CODE | {"prompt": "else"}, rows[0]]), "tests")
    compare_with_held_out(found, held_out)
    assert found.good
    assert f"{tmp_path}/h.jsonl:2 (0)" in found.left_out
    found = checked(rows_in(tmp_path / "q.jsonl", rows), "tests")
    assert (findings(found), found.trained_on, found.good) == ([], 0, False)


@pytest.mark.parametrize(("needs", "row"), [("answer", MATH), ("tests", CODE)])
def test_what_loads_is_good_and_what_is_good_loads(needs: Needs, row: dict[str, Any], tmp_path: Path) -> None:
    for rows in ([row, row | {"id": "b"}], [verl("assert f() == 2")]):
        source = rows_in(tmp_path / "p.parquet", rows)
        assert checked(source, needs).good
        assert len(load_problems(source, "train", DataConfig(train="x"), tokenizer(), needs)) == len(rows)


def test_sizes_duplicates_and_overlong_prompts_are_counted_and_allowed(tmp_path: Path) -> None:
    rows = [CODE, CODE | {"id": "b", "solution": None}, CODE | {"id": "c", "prompt": "Write " * 30}]
    source = rows_in(tmp_path / "p.jsonl", rows)
    found = checked(source, "tests", tokenizer(), max_prompt_length=40)
    counts = found.counts()
    assert found.good
    assert (counts["rows"], counts["tests"], counts["tests per row"]) == (3, 6, "2 to 2, mean 2.0")
    assert (counts["rows without a solution"], counts["prompts left out as overlong"]) == (1, 1)
    assert counts["duplicate prompts"] == "1: row 2 repeats row 1"
    whole = load_problems(source, "train", DataConfig(train=source), tokenizer(), "tests")
    lengths = [len(ids) for ids in whole.frame["prompt_token_ids"]]
    assert counts["prompt tokens"].startswith(f"{min(lengths)} to {max(lengths)}, mean ")
    assert not checked(source, "tests", tokenizer(), max_prompt_length=2).good


def test_a_set_whose_own_solutions_fail_is_refused_with_the_list(tmp_path: Path) -> None:
    rows = [
        CODE,
        CODE | {"id": "b", "solution": "def inc(x): return 2"},
        CODE | {"id": "c", "solution": "def inc(x) return 2"},
        CODE | {"id": "d", "solution": None},
    ]
    found = judged(checked(rows_in(tmp_path / "p.jsonl", rows), "tests"))
    assert [(each.row, each.id, each.what, each.test) for each in found.failures] == [
        (2, "b", "wrong_answer", "assert inc(2) == 3"),
        (3, "c", "syntax_error", "assert inc(1) == 2"),
    ]
    assert (found.counts()["solutions accepted"], found.good, found.findings) == (1, False, [])


@pytest.mark.slow
@pytest.mark.parametrize(("file", "count"), [("humaneval/HumanEval.jsonl.gz", 164), ("mbpp/mbpp.jsonl", 974)])
def test_the_published_sets_are_good(file: str, count: int) -> None:
    found = judged(checked(str(data_set(file)), "tests"))
    assert (found.good, found.counts()["solutions accepted"], found.rows) == (True, count, count)


# ---- what is asked for, and what can be graded ---------------------------------------------------------------------

HASH = 'How many? Output the final answer after "####".'


def test_where_prompts_ask_for_the_answer_is_said_and_a_setting_that_reads_elsewhere_is_a_fault(tmp_path: Path) -> None:
    """verl's own rows of GSM8K: the grader read boxes, and the check called the set good."""
    rows = [MATH | {"id": name, "prompt": prompt} for name, prompt in (("a", HASH), ("b", HASH + " "), ("c", "1+1=?"))]
    source = rows_in(tmp_path / "rows.jsonl", rows)
    found = checked(source)
    assert found.good
    assert found.counts()["answers are asked for as"] == "hash (2 rows), unsaid: boxed is read (1 rows)"
    elsewhere = checked(source, answer="boxed")
    assert findings(elsewhere) == [
        (0, "prompts ask for the answer as hash, and reward.answer=boxed reads it elsewhere")
    ]
    assert checked(source, answer="hash").good


def test_answers_that_cannot_be_graded_are_counted_and_left_out(tmp_path: Path) -> None:
    """NuminaMath-1.5's proofs, SYNTHETIC-2's JSON."""
    answers = ["2", "proof", '{"ground_truth": "2"}', "notfound"]
    rows = [MATH | {"id": str(place), "prompt": f"{place}?", "answer": each} for place, each in enumerate(answers)]
    source = rows_in(tmp_path / "rows.jsonl", rows)
    found = checked(source)
    assert (found.good, found.trained_on) == (True, 1)
    assert found.counts()["rows that cannot be graded, left out"] == "3: 2 (1), 3 (2), 4 (3)"
    problems = load_problems(source, "train", DataConfig(train=source), tokenizer(), "answer")
    assert problems.frame["id"].tolist() == ["0"]
    assert problems.reasons()["the answer is 'proof', which is none"] == ["2 (1)"]
    assert len(load_problems(source, "train", DataConfig(train=source), tokenizer(), "nothing")) == 4
    with pytest.raises(DataError, match=r"none.jsonl:1: the answer is 'proof', which is none"):
        load_problems(rows_in(tmp_path / "none.jsonl", rows[1:]), "train", DataConfig(train="x"), tokenizer(), "answer")


def test_a_held_out_set_that_is_in_the_train_set_is_a_fault_unless_it_is_dropped(tmp_path: Path) -> None:
    rows = [MATH | {"id": str(place), "prompt": f"{place}?"} for place in range(3)]
    train = rows_in(tmp_path / "train.jsonl", rows)
    held_out = checked(rows_in(tmp_path / "held_out.jsonl", rows[:2]))
    said = f"all 2 prompts of {tmp_path}/held_out.jsonl are in the train set"
    for drops in (False, True):
        found = checked(train)
        compare_with_held_out(found, held_out, "own", drops)
        assert [what.partition(": ")[0] for _, what in findings(found)] == [said][drops:]


def test_odd_templates_and_special_tokens_in_a_prompt_are_told(tmp_path: Path) -> None:
    usual, odd = tokenizer(), with_template("{% for each in messages %}{{ each.content }}</turn>{% endfor %}")
    ends = {usual.convert_tokens_to_ids("<|im_end|>")}
    assert odd_in_template(usual, {}, ends) == []
    begins, ending = odd_in_template(odd, {}, ends)
    assert "it begins no turn of the assistant" in begins
    assert "it ends a turn with '</turn>', which is not an end token ('<|im_end|>'): responses run" in ending
    source = rows_in(tmp_path / "rows.jsonl", [MATH, MATH | {"id": "b", "prompt": "1<|im_end|>1"}])
    found = checked(source, model=usual)
    assert found.counts()["prompts with special tokens as text"] == "1: row 2"
