"""tiny-tool: what its problems and worked examples promise."""

import json
import random
from collections import Counter

import pytest
from transformers import AutoTokenizer

from examples.tiny import CHECKPOINTS
from examples.tiny.problems import Split
from examples.tiny.products import CALLING, LEVELS, MISREAD, SHOWN, SLIP, Product, call, draw_product, split_products
from rewards.math import grade_answers


@pytest.fixture(scope="module")
def products() -> Split[Product]:
    return split_products(random.Random(3), 6000)


@pytest.mark.parametrize("level", LEVELS)
def test_the_answer_is_the_expressions_value(level: int) -> None:
    rng = random.Random(level)
    for problem in (draw_product(rng, level) for _ in range(300)):
        assert problem.answer == eval(problem.expression) > 0


def test_examples_call_slip_and_misread_as_often_as_is_said(products: Split[Product]) -> None:
    first = [(problem, response) for problem, response in products.examples if not problem.said]
    calls = [(problem, response) for problem, response in first if response.startswith("<tool_call>")]
    assert len(calls) / len(first) == pytest.approx(CALLING, abs=0.03)
    for level in LEVELS:
        right = [response == call(problem.expression) for problem, response in calls if problem.level == level]
        assert 1 - sum(right) / len(right) == pytest.approx(SLIP[level], abs=0.06)
    # Who answers at once is always right, and still the model does not learn to multiply.
    assert all(str(problem.answer) in response for problem, response in first if "<tool_call>" not in response)
    later = [(problem.said[0], response) for problem, response in products.examples if problem.said]
    copied = [said[1] in response for said, response in later]
    assert 1 - sum(copied) / len(copied) == pytest.approx(MISREAD, abs=0.03)


def test_results_are_those_of_the_calls(products: Split[Product]) -> None:
    for problem, _ in products.examples[:500]:
        for response, result in problem.said:
            written = json.loads(response.removeprefix("<tool_call>").removesuffix("</tool_call>"))
            assert result == str(eval(written["arguments"]["expression"]))


def test_sets_are_balanced_and_their_answers_can_be_graded(products: Split[Product]) -> None:
    counts = Counter(problem.level for problem in products.train + products.heldout)
    assert set(counts.values()) == {250}
    rows = [problem.row() for problem in products.heldout]
    boxed = [f"\\boxed{{{row['answer']}}}" for row in rows]
    assert grade_answers(boxed, [str(row["answer"]) for row in rows], "boxed", True) == [1.0] * len(rows)


def test_the_template_shows_tools_as_the_worked_examples_do() -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS / "tool")
    asked = [{"role": "user", "content": "12*34=?"}]
    tools = [{"type": "function", "function": {"name": "calculator", "description": "", "parameters": {}}}]
    shown = tokenizer.apply_chat_template(asked, tools=tools, tokenize=False)
    assert shown == tokenizer.apply_chat_template([SHOWN, *asked], tokenize=False)
