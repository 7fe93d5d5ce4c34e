"""Answer grading: where an answer stands in a response, what a ground truth is, and when two answers are the same."""

import time
from pathlib import Path

import numpy as np
import pytest

from rewards import math as grading
from rewards.expressions import Unreadable, equal
from rewards.math import asked_format, find_answer, grade_answers, why_ungradable

PAIRS = [
    (line[0] == "+", *(part.replace("⏎", "\n") for part in line[2:].split("  ⇐  ")))
    for line in Path(__file__).with_name("answer_pairs.txt").read_text(encoding="utf-8").splitlines()
    if line[:2] in ("+ ", "- ")
]


def boxed(*answers: str) -> list[str]:
    return [f"so it is \\boxed{{{answer}}}" for answer in answers]


def test_pairs_of_public_reports() -> None:
    wrong = [pair for pair in PAIRS if grade_answers(boxed(pair[2]), [pair[1]]) != [float(pair[0])]]
    assert len(PAIRS) > 380
    assert wrong == []


@pytest.mark.parametrize(
    ("truth", "answer", "right"),
    [
        (1e-05, "1e-5", 1), (1e-05, "10^{-5}", 1), (1e-07, "2\\times 10^{-7}", 0), (1e16, "10000000000000000", 1),
        ([7], "7", 1), (np.float64(0.5), "0.5", 1), (42, "42.0", 1), (7.0, "+7", 1), (True, "True", 1),
    ],
)  # fmt: skip
def test_a_ground_truth_may_be_a_number_or_a_list_of_one(truth: object, answer: str, right: int) -> None:
    assert grade_answers(boxed(answer), [truth]) == [right]


def test_a_thousand_plain_numbers_take_less_than_a_second() -> None:
    answers = [f"{n}" if n % 2 else f"{n}.0" for n in range(2000)]
    start = time.process_time()
    assert grade_answers(boxed(*answers), list(range(2000))) == [1.0] * 2000
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9^{9}}}", "(" * 2000 + "1" + ")" * 2000, "1" + "+1" * 2000, "\\sqrt" * 800 + "2", "-" * 4000 + "1",
        "x^{x^{x^{x}}}", "999999999!", "\\binom{10^9}{5 \\cdot 10^8}", "e^{e^{e^{e^{e}}}}", "10^{10^{10}}-1",
        "1," * 2000 + "1", "\\{" + "1," * 2000 + "1\\}", "(" * 4000, "a" * 4000 + "1", "\\sin" * 1000 + " 1",
        "|" * 4000, "million" * 500, "=" * 4000, "A. " * 1300, "7" * 8000,
        "The function is increasing everywhere on the interval from 1 to 2",
    ],
    ids=lambda answer: answer[:9],
)  # fmt: skip
def test_no_answer_takes_long(answer: str) -> None:
    start = time.process_time()
    assert grade_answers(boxed(answer), ["3"]) == grade_answers(boxed(answer), ["increasing"]) == [0.0]
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "numbers",
    [[f"{n}" for n in range(900)], [f"{n}.0" for n in range(600)], [f"{n}/7" for n in range(1, 500)]],
    ids=["whole", "decimal", "fractions"],
)
@pytest.mark.parametrize("brackets", ["{}", "\\{{{}\\}}"], ids=["list", "set"])
def test_long_lists_in_another_order_are_the_same(numbers: list[str], brackets: str) -> None:
    start = time.process_time()
    truth, answer, wrong = (
        brackets.format(",".join(each)) for each in (numbers, numbers[::-1], [*numbers[1:], "1000"])
    )
    assert grade_answers(boxed(answer, wrong), [truth, truth]) == [1.0, 0.0]
    assert time.process_time() - start < 5


@pytest.mark.parametrize("text", ["\\frac10", "1 2", "\\foo", "", "2^{", "9^{9^9}", "\\sum_{k=1}^n k", "1101_2"])
def test_what_has_no_value_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        equal(text, text)


# ---- where the answer stands ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("\\boxed{1} then \\boxed{ 2 }", " 2 "), ("\\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"), ("\\boxed{}", ""), ("\\boxed{5}, I checked: \\boxed{}", ""),
        ("\\boxed{1", None), ("\\boxed 1", None), ("\\boxed {1}", "1"), ("\\fbox{1}", "1"), ("", None),
        ("\\boxed{3}, \\boxed{4}", "3, 4"), ("\\boxed{3} and \\boxed{4}.", "3, 4"), ("\\boxed{5}\\boxed{5}", "5"),
        ("\\boxed{\\boxed{5}}", "\\boxed{5}"), ("Step 1: \\boxed{2}\n\n\\boxed{3}", "3"),
        ("\\boxed{2}.\n \n$\\boxed{3}$", "3"), ("\\boxed{2},\n\n\\boxed{3}", "2, 3"),
        ("\\boxed{2}\n\\boxed{3}", "2, 3"),
        ("\\boxed{\\frac12} \\text{ or } \\boxed{3}", "\\frac12, 3"), ("\\boxed{2}, \\quad \\boxed{3}", "2, 3"),
        ("\\boxed{2}, and \\boxed{3}", "2, 3"), ("\\boxed{2} \\text{ not } \\boxed{3}", "3"),
    ],
)  # fmt: skip
def test_the_last_boxed_content(text: str, content: str | None) -> None:
    assert grading.last_boxed(text) == content


@pytest.mark.parametrize(
    ("where", "response", "answer"),
    [
        ("hash", "3 + 4 = 7\n#### 7", "7"), ("hash", "so \\boxed{7}", None), ("hash", "#### 6\nno\n#### 7 \nbye", "7"),
        ("last_line", "So it is.\nAnswer: 34\n", "34"), ("last_line", "**Final Answer:** $34$", "$34$"),
        ("last_line", "Answer: \\boxed{34}", "34"), ("last_line", "Answer: $x=5$", "$x=5$"), ("last_line", "34", "34"),
        ("last_line", "**Answer: 34**", "34"), ("last_line", "Answer: **34**", "34"), ("last_line", "Answer: `5`", "5"),
        ("last_line", "**Final Answer: 42**.", "42."), ("last_line", "**Answer: B**", "B"),
        ("last_line", "**Answer:** **x^***", "x^*"), ("last_line", "Answer: __3*4__", "3*4"),
        ("hash", "#### **5**", "5"),
        ("hash", "**#### 5**", "5"), ("tag answer", "<answer>**5**</answer>", "5"),
        ("last_line", "", None), ("tag answer", "<answer>6</answer> or <answer>7</answer>", "7"),
        ("tag answer", "<answer>\\boxed{7}</answer>", "7"), ("tag answer", "7", None),
        ("tag answer", "In <answer> tags: <answer>8</answer>", "8"), ("tag answer", "<answer>" * 20_000, None),
        (r"it is (\d+)", "it is 6, no, it is 7", "7"), (r"\d+", "6 or 7", "7"), (r"it is (\d+)", "7", None),
    ],
)  # fmt: skip
def test_an_answer_is_read_where_the_setting_says(where: str, response: str, answer: str | None) -> None:
    assert find_answer(response, where) == answer


@pytest.mark.parametrize(
    ("prompt", "where"),
    [
        ('How many? Let\'s think step by step and output the final answer after "####".', "hash"),
        ("Solve it. The last line of your response should be of the form Answer: $Answer", "last_line"),
        ("Put your final answer within \\boxed{}.", "boxed"),
        ("Answer in <think> and <answer> tags: <answer> 5 </answer>", "tag answer"),
        ("$3+\\boxed{?}=7$. The last line should be of the form Answer: $Answer", "last_line"),
        ("Put it in \\boxed{}, on a last line like Answer: \\boxed{5}", "boxed"),
        ("1+1=?", None),
        ("Write Answer: $Answer on its own line.", "last_line"),
        ("Two points lie on a straight line. Answer: ", None),
        ("#### Instructions\nWhat is 1+1?", None),
        ("#### 2. Rules\nWhat is 1+1?", None),
        ("The maze is\n#####\n#. .#\n#### \n####", None),
        ("Use the rules.\n\n#### Rules\nA wall is #.", None),
        ("End with #### and the number.", "hash"),
        ("Reply in this form:\nReasoning\n#### <answer>", "hash"),
        ("Q: 3+4?\nA: 3+4=7\n#### 7\nQ: 1+1?", "hash"),
    ],
)
def test_a_prompt_says_how_to_answer(prompt: str, where: str | None) -> None:
    assert asked_format(prompt) == where


@pytest.mark.parametrize(
    ("response", "right"),
    [
        ("<think>\\boxed{5}</think> \\boxed{6}", 0),
        ("<think>\\boxed{6}</think> \\boxed{5}", 1),
        ("maybe \\boxed{6}</think> \\boxed{5}", 1),  # the template opened it
        ("<think>so \\boxed{5}", 0),
        ("<reasoning>\\boxed{6}</reasoning>\\boxed{5}", 1),
        ("<think>\\boxed{5}</think>", 0),
    ],
)
def test_answers_follow_the_thinking(response: str, right: int) -> None:
    assert grade_answers([response], ["5"]) == [right]


@pytest.mark.parametrize(
    ("answer", "right"), [("12", 1), ("12.0", 1), ("3*4", 0), ("3 \\times 4", 0), ("\\frac{24}{2}", 0), ("-12", 0)]
)
def test_a_number_may_have_to_be_written_out(answer: str, right: int) -> None:
    assert grade_answers(boxed(answer), ["12"], computed=True) == [right]
    assert grade_answers(boxed("\\frac{2}{4}"), ["\\frac12"], computed=True) == [1.0]


# ---- ground truths -------------------------------------------------------------------------------------------------

GSM8K = "Betty has 100 / 2 = $<<100/2=50>>50.\nThis means, Betty needs 100 - 50 - 45 = $<<100-50-45=5>>{}more.\n#### {}"


@pytest.mark.parametrize(
    ("truth", "right", "wrong"),
    [
        (GSM8K.format(5, 5), "5", "50"),
        (GSM8K.format(-5, -5), "-5.0", "5"),
        ("so \\boxed{3} and then\n#### 4", "4", "3"),
        ("#### 1,250", "1,250", "250"),
        ("#### $18\n", "18", "1"),
        ("half\n#### 50%", "50%", "2"),
        ("#### Step 1\n7", "#### Step 1\n7", "7"),  # a heading
    ],
)
def test_the_answer_of_a_gsm8k_solution_is_what_follows_the_last_mark(truth: str, right: str, wrong: str) -> None:
    assert grade_answers(boxed(right, wrong), [truth, truth]) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("truth", "said"),
    [
        ("proof", "the answer is 'proof', which is none"),
        ("notfound", "which is none"),
        ('{"ground_truth": "5"}', "JSON text"),
        ('["5", "6"]', "JSON text"),
        ("We show that for every whole number " + "there is a larger one " * 8, "many words"),
        (" ", "the answer is empty"),
        ("[1, 2]", ""), ("5", ""), (5, ""), ("\\text{no solution}", ""), (GSM8K.format(5, 5), ""), ("\\{1, 2\\}", ""),
    ],
)  # fmt: skip
def test_ground_truths_that_no_answer_can_equal(truth: object, said: str) -> None:
    assert said in why_ungradable(truth)
    assert bool(said) == bool(why_ungradable(truth))


def test_bad_inputs() -> None:
    assert grade_answers([], []) == []
    with pytest.raises(ValueError, match="1 responses but 2"):
        grade_answers(["a"], ["1", "2"])
    for truth in (None, "", "  ", "\\boxed{}"):
        with pytest.raises(ValueError, match="row 0"):
            grade_answers(["a"], [truth])
