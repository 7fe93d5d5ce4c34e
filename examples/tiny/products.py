"""Products of large numbers, for which a model needs a calculator (tiny-tool).

A model of 127k parameters does not learn to multiply numbers of two digits, however many worked examples it sees; it
learns to copy an expression into a call and the result into a box. Of the worked examples half answer at once, always
rightly, and many of the others slip in a copy: so what lifts the model is to call, and to copy with care.

    37*84=?                                         \\boxed{3108}
    37*84=?      <tool_call>{"name": "calculator", "arguments": {"expression": "37*84"}}</tool_call>
    3108         \\boxed{3108}
"""

import json
import random
from dataclasses import dataclass, replace
from functools import partial

from ares.environments import evaluate
from examples.tiny.chains import OPERATIONS
from examples.tiny.problems import Split, answer_row, box, draw_balanced
from examples.tiny.programs import Conversation

LEVELS = (1, 2, 3)
WHOLE_WORDS = ("<tool_call>", "</tool_call>", "\\boxed{")
SHOWN = {"role": "system", "content": "<tool_call> calculator"}
"""What the chat template makes of the tool."""
CALLING = 0.5
"""Share of worked examples that call the calculator."""
SLIP = {1: 0.2, 2: 0.3, 3: 0.4}
"""How often a worked call has another digit than the problem, by level."""
MISREAD = 0.15
"""How often a worked answer has another digit than the calculator's result."""


@dataclass(frozen=True)
class Product:
    """A prompt, and what was called and answered so far."""

    level: int
    expression: str
    answer: int
    said: tuple[tuple[str, str], ...] = ()
    """Responses and the calculator's results."""

    @property
    def prompt(self) -> str:
        return f"{self.expression}=?"

    @property
    def conversation(self) -> Conversation:
        turns = [SHOWN, {"role": "user", "content": self.prompt}]
        for response, result in self.said:
            turns += [{"role": "assistant", "content": response}, {"role": "tool", "content": result}]
        return turns

    row = answer_row


def draw_product(rng: random.Random, level: int) -> Product:
    """A problem of a level: a product, one that a number is added to or taken from, the sum of two."""
    first, second, third, fourth = (rng.randint(12, 99) for _ in range(4))
    if level == 1:
        return Product(level, f"{first}*{second}", first * second)
    if level == 2:
        sign = rng.choice("+-")
        return Product(level, f"{first}*{second}{sign}{third}", OPERATIONS[sign](first * second, third))
    return Product(level, f"{first}*{second}+{third}*{fourth}", first * second + third * fourth)


def call(expression: str) -> str:
    """A response that calls the calculator."""
    return f"<tool_call>{json.dumps({'name': 'calculator', 'arguments': {'expression': expression}})}</tool_call>"


def write_turns(problem: Product, rng: random.Random) -> list[tuple[Product, str]]:
    """A worked example: one or two turns, each with the response to imitate."""
    if rng.random() >= CALLING:
        return [(problem, box(problem.answer, rng))]
    copied = change_digit(problem.expression, SLIP[problem.level], rng)
    result = evaluate(copied)
    answer = box(int(change_digit(result, MISREAD, rng)), rng)
    return [(problem, call(copied)), (replace(problem, said=((call(copied), result),)), answer)]


def change_digit(text: str, rate: float, rng: random.Random) -> str:
    """The text, or at the given rate with another digit, not 0, at the place of one of its digits."""
    if rng.random() >= rate:
        return text
    place = rng.choice([place for place, character in enumerate(text) if character.isdigit()])
    return text[:place] + rng.choice("123456789".replace(text[place], "")) + text[place + 1 :]


def split_products(rng: random.Random, examples: int, train: int = 600, heldout: int = 150) -> Split[Product]:
    """Sets of tiny-tool, balanced over the levels; no prompt is in two of them. Counts are totals, `examples` turns."""
    draw = partial(draw_balanced, partial(draw_product, rng), LEVELS)
    problems = draw(heldout + train, lambda problem: problem.prompt)
    rng.shuffle(problems)
    measured = {problem.prompt for problem in problems[:heldout]}
    taught: list[tuple[Product, str]] = []
    while len(taught) < examples:
        problem = draw_product(rng, rng.choice(LEVELS))
        if problem.prompt not in measured:
            taught += write_turns(problem, rng)
    return Split(taught[:examples], problems[heldout:], problems[:heldout])


def texts_of_calls(split: Split[Product]) -> list[str]:
    """What the tokenizer is trained on: prompts, calls and answers of the problems to train on."""
    return [text for each in split.train for text in (each.prompt, call(each.expression), f"\\boxed{{{each.answer}}}")]
