"""Calls of tools in a response, by format; what means to be a call and is not; what only looks like one."""

import time

import pytest

from ares.environments.call_formats import Call, Malformed, parse_calls

ADD = Call("add", {"a": 1, "b": [2]})
HERMES = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": [2]}}\n</tool_call>'
LLAMA = '{"name": "add", "parameters": {"a": 1, "b": [2]}}'
DEEP = '{"a":' * 100_000
NO_CALL = Malformed('a call is {"name": "...", "arguments": {...}}, in JSON')

CASES: dict[str, dict[str, list[Call | Malformed]]] = {
    "hermes": {
        "no call": [],
        HERMES: [ADD],
        f"First. {HERMES} Then {HERMES}": [ADD, ADD],
        f"<think>{HERMES}</think>The answer is 3.": [],
        f"<think>I call it.</think>{HERMES}": [ADD],
        '<tool_call>{"name": "now"}</tool_call>': [Call("now", {})],
        '<tool_call>{"name": "é", "arguments": {"x": "</tool_call"}}</tool_call>': [Call("é", {"x": "</tool_call"})],
        f"{HERMES}<tool_call>": [ADD, Malformed("<tool_call> has no </tool_call>")],
        "<tool_call>add(1)</tool_call>": [NO_CALL],
        f"<tool_call>{HERMES}": [NO_CALL],
        f"<tool_call>{DEEP}</tool_call>": [NO_CALL],
        "<tool_call>[]</tool_call>": [NO_CALL],
        '<tool_call>{"arguments": {}}</tool_call>': [NO_CALL],
        '<tool_call>{"name": "add", "arguments": "a"}</tool_call>': [NO_CALL],
        f"<tool_call>{LLAMA}</tool_call>": [NO_CALL],
    },
    "llama": {
        "no call": [],
        f" {LLAMA}\n": [ADD],
        f"{LLAMA}; {LLAMA}": [ADD, ADD],
        f"I call {LLAMA}": [],
        '{"answer": 3}': [],
        '{"name": "add", "parameters": {"a": 1': [Malformed('a call is {"name": "...", "parameters": {...}}, in JSON')],
        HERMES: [],
    },
    "python": {
        "no call": [],
        "```python\nprint(1)\n```": [Call("python", {"code": "print(1)\n"})],
        "a\n```py\nx = 1\n\n```\nb\n```python\nx\n```": [
            Call("python", {"code": "x = 1\n\n"}), Call("python", {"code": "x\n"})
        ],
        "```\nprint(1)\n```": [],
        "```python3\r\nprint(1)\r\n```": [Call("python", {"code": "print(1)\r\n"})],
        "```Python\nprint(1)```": [Call("python", {"code": "print(1)"})],
        "1. So:\n\n   ```python\n   if 1:\n     x\n\n   ```": [Call("python", {"code": "if 1:\n  x\n\n"})],
        "```py\nx\n```\n```python\nprint(1)": [
            Call("python", {"code": "x\n"}), Malformed("```python has no closing ```")
        ],
        "say ```python inline```": [],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("call_format", "response"), [(name, text) for name, cases in CASES.items() for text in cases], ids=lambda x: x[:40]
)
def test_calls_of_a_response(call_format: str, response: str) -> None:
    assert parse_calls(response, call_format) == CASES[call_format][response]


@pytest.mark.parametrize(
    "text", ["<tool_call>", "```python\n", "<think>", "</think>", '{"name": "a"};', "<tool_call> "]
)
def test_a_long_response_is_read_in_bounded_time(text: str) -> None:
    """Of markup that opens and never closes, each opening once had the rest searched for its end."""
    begun = time.process_time()
    for call_format in CASES:
        assert len(parse_calls(text * 10_000, call_format)) <= 10_000
    assert time.process_time() - begun < 3
