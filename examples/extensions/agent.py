"""An agent: a loop around OpenAI's client that knows nothing of ares. It calls a calculator until the model answers."""

import json
from typing import Any

from openai import OpenAI

from ares.environments import evaluate

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Calculate the value of an arithmetic expression.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    },
}

OpenAI(api_key="none").chat  # noqa: B018 (what a client imports at first use, every episode finds imported)


def solve(row: dict[str, Any], seed: int) -> float:
    """Returns the reward: 1 for the right answer."""
    client = OpenAI()  # OPENAI_BASE_URL is the run
    messages: list[Any] = [{"role": "user", "content": row["prompt"]}]
    while True:
        said: Any = client.chat.completions.create(model="policy", messages=messages, tools=[TOOL]).choices[0].message
        messages.append(said)
        if not said.tool_calls:
            return float(f"\\boxed{{{row['answer']}}}" in (said.content or ""))
        for call in said.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": calculate(call.function.arguments)})


def calculate(arguments: str) -> str:
    """The result of a call, or what is wrong with it."""
    try:
        return evaluate(json.loads(arguments)["expression"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return f"Error: {error}"
