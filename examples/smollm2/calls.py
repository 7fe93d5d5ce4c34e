"""Products that SmolLM2 cannot work out: it learns to ask for them in a line such as `CALC 23 * 45`, and to copy.

    What is 23 * 45?   CALC 23 * 45   1035   1035        question, call, its value, answer

    python -m examples.smollm2.calls      writes the problems, and worked episodes to learn from before (calls.yaml)

Covered: the environment, its problems, demonstrations of which three in ten contain a mistake. Not covered: tools in
the format of a chat template (environment.kind=tools): they take 150 tokens to describe, and the model calls none.
"""

import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ares.environments import Reply, evaluate

FOLDER = Path("examples/smollm2/products")
MISTAKES = ("call", "copy", "no call")
"""Each in one of ten demonstrations."""


class Calls:
    """An episode: a question, calls, an answer."""

    def reset(self, row: Mapping[str, Any], seed: int) -> str:
        """Nothing is said beside the question."""
        return ""

    def step(self, text: str) -> Reply:
        """The value of a call. Anything else ends the episode, and is the answer."""
        word, _, expression = text.strip().partition(" ")
        if word != "CALC":
            return Reply(done=True)
        try:
            return Reply(evaluate(expression))
        except ValueError as error:
            return Reply(f"Error: {error}")


def question(one: int, two: int) -> str:
    """Of a product."""
    return f"What is {one} * {two}?"


def demonstration(one: int, two: int, draw: random.Random) -> list[str]:
    """What user and assistant say in turn, from the question to the answer."""
    mistake = dict(enumerate(MISTAKES)).get(draw.randint(0, 9))
    if mistake == "no call":
        return [question(one, two), str(one * two + draw.randint(-300, 300))]
    called = two + draw.randint(1, 5) * (mistake == "call")
    value = one * called
    said = value + draw.randint(-99, 99) * (mistake == "copy")
    return [question(one, two), f"CALC {one} * {called}", str(value), str(said)]


def write(file: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Rows as JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    """Write train.jsonl, heldout.jsonl and demonstrations.jsonl, which share no question."""
    draw = random.Random(0)
    pairs = [(one, two) for one in range(10, 100) for two in range(10, 100)]
    draw.shuffle(pairs)
    FOLDER.mkdir(exist_ok=True)
    for name, some in {"heldout": pairs[:50], "train": pairs[50:1050]}.items():
        write(
            FOLDER / f"{name}.jsonl", ({"prompt": question(*pair), "answer": str(pair[0] * pair[1])} for pair in some)
        )
    chats = (demonstration(*pair, draw) for pair in pairs[1050:1450])
    told = (
        [{"role": ("user", "assistant")[turn % 2], "content": said} for turn, said in enumerate(chat)] for chat in chats
    )
    write(FOLDER / "demonstrations.jsonl", ({"messages": messages} for messages in told))


if __name__ == "__main__":
    main()
