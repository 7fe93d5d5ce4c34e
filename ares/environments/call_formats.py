"""How a response writes calls of tools: a table of formats, each a pure function from a text to calls.

    hermes   <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>, any number, anywhere (Qwen, Hermes)
    llama    {"name": "add", "parameters": {"a": 1}}, several after semicolons, and nothing else (Llama 3)
    python   a fenced block of Python: the argument `code` of the tool `python`

What is between a model's thinking tags is not a call. A text that means to call but does not succeed is Malformed, and
the model is told why. Not covered: which tools there are (ares/environments/tools.py), special tokens
(ares/engines/responses.py).
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rewards.thinking import without_thinking


@dataclass(frozen=True)
class Call:
    """A call of a tool, which may not exist."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Malformed:
    """What was to be a call, and why it is none."""

    why: str


def parse_calls(response: str, call_format: str) -> list[Call | Malformed]:
    """The calls of a response in their order; none: it does not call anything."""
    return FORMATS[call_format](without_thinking(response))


def _hermes(text: str) -> list[Call | Malformed]:
    calls: list[Call | Malformed] = []
    for found in re.finditer(r"<tool_call>(.*?)(</tool_call>|\Z)", text, re.DOTALL):
        if not found[2]:
            calls.append(Malformed("<tool_call> has no </tool_call>"))
            break
        try:
            calls.append(_call(_JSON.decode(found[1]), "arguments"))
        except (ValueError, RecursionError) as error:
            calls.append(_broken(error))
    return calls


def _llama(text: str) -> list[Call | Malformed]:
    calls: list[Call | Malformed] = []
    text = text.strip()
    while text.startswith("{"):
        try:
            value, end = _JSON.raw_decode(text)
        except (ValueError, RecursionError) as error:
            return [*calls, _broken(error)]
        if not calls and not {"name", "parameters"} & value.keys():
            return []  # an answer in JSON
        calls.append(_call(value, "parameters"))
        text = text[end:].lstrip(" \t\n;")
    return calls


def _python(text: str) -> list[Call | Malformed]:
    calls: list[Call | Malformed] = []
    begins = None
    text, indent = text.replace("\r\n", "\n"), ""
    for fence in _FENCE.finditer(text):
        if begins is None and fence[2]:
            begins, indent = fence.end() + 1, fence[1]
        elif begins is not None and not fence[2]:
            code = re.sub(f"^{indent}", "", text[begins : fence.start()], flags=re.MULTILINE)
            calls.append(Call("python", {"code": code}))
            begins = None
    return calls if begins is None else [*calls, Malformed("```python has no closing ```")]


_FENCE = re.compile(r"^([ \t]*)```(python3?|py)?[ \t]*$|```[ \t]*$", re.MULTILINE | re.IGNORECASE)
"""(indentation, language) of a line that opens or closes a block; or the end of a line of code, which closes it."""


FORMATS: Mapping[str, Callable[[str], list[Call | Malformed]]] = {
    "hermes": _hermes,
    "llama": _llama,
    "python": _python,
}


def _call(value: Any, arguments: str) -> Call | Malformed:
    """A call from its JSON, whose arguments are under this key."""
    if not isinstance(value, dict):
        return Malformed("a call is a JSON object")
    if not isinstance(value.get("name"), str):
        return Malformed('a call has a "name", which is a string')
    if unknown := [key for key in value if key not in ("name", arguments)]:
        return Malformed(f'a call has "name" and "{arguments}", not "{unknown[0]:.40}"')
    if not isinstance(value.get(arguments, {}), dict):
        return Malformed(f'"{arguments}" is a JSON object')
    return Call(value["name"], value.get(arguments, {}))


def _broken(error: ValueError | RecursionError) -> Malformed:
    return Malformed(f"broken JSON: {'nested too deeply' if isinstance(error, RecursionError) else error}")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


_JSON = json.JSONDecoder(parse_constant=_refuse)
