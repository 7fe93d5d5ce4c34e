"""How a response writes calls of tools, in a table of formats, and how OpenAI's clients do, as parts of messages.

    hermes   <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>, any number, anywhere (Qwen, Hermes)
    llama    {"name": "add", "parameters": {"a": 1}}, several after semicolons, and nothing else (Llama 3)
    python   a fenced block of Python: the argument `code` of the tool `python`

    response  "Let me see. <tool_call>{"name": "add", …}</tool_call>"     ──▶ {"role": "assistant", "tool_calls": […]}
    request   messages: ours, as the client kept it, then what is new     ──▶ the text of a user, or results of tools

What is between a model's thinking tags is not a call. A text that means to call but does not succeed is Malformed, and
the model is told why. Not covered: which tools there are (ares/environments/tools.py), special tokens
(ares/engines/responses.py), HTTP (ares/serving.py, ares/environments/agents.py), chat templates (ares/data).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewards.code import FENCE, code_blocks
from rewards.thinking import without_thinking

Message = dict[str, Any]
MOST_BYTES = 8 << 20
"""Of a request."""


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
            value = json.loads(found[1])
        except (ValueError, RecursionError):
            value = None
        calls.append(_call(value, "arguments"))
    return calls


def _llama(text: str) -> list[Call | Malformed]:
    calls: list[Call | Malformed] = []
    text = text.strip()
    while text.startswith("{"):
        try:
            value, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError):
            value, end = {"name": None}, len(text)
        if not calls and not {"name", "parameters"} & value.keys():
            return []  # an answer in JSON
        calls.append(_call(value, "parameters"))
        text = text[end:].lstrip(" \t\n;")
    return calls


def _python(text: str) -> list[Call | Malformed]:
    calls: list[Call | Malformed] = [Call("python", {"code": code}) for code in code_blocks(text)]
    if len(list(code_blocks(f"{text}\n{FENCE}"))) > len(calls):
        calls.append(Malformed("```python has no closing ```"))
    return calls


FORMATS: Mapping[str, Callable[[str], list[Call | Malformed]]] = {
    "hermes": _hermes,
    "llama": _llama,
    "python": _python,
}


def _call(value: Any, arguments: str) -> Call | Malformed:
    """A call from its JSON, whose arguments are under this key."""
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("name"), str)
        or not isinstance(value.get(arguments, {}), dict)
        or value.keys() - {"name", arguments}
    ):
        return Malformed(f'a call is {{"name": "...", "{arguments}": {{...}}}}, in JSON')
    return Call(value["name"], value.get(arguments, {}))


def write_answer(response: str, has_tools: bool, call_format: str, name: str) -> Message:
    """A response as a message, with the calls that it makes, if there are tools and all of its calls can be read.

    name: four characters, with which the ids of its calls begin.
    """
    calls = parse_calls(response, call_format) if has_tools else []
    made = [
        {"id": f"{name}{place:05}", "type": "function",  # Mistral's templates want nine characters
         "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
        for place, call in enumerate(calls) if isinstance(call, Call)
    ]  # fmt: skip
    if not made or len(made) < len(calls):
        return {"role": "assistant", "content": response}
    answer = without_thinking(response)  # a call in the thoughts is none
    called = answer[answer.find("<tool_call>") :] if call_format == "hermes" else response
    said = (response if response.endswith(called) else answer).removesuffix(called).strip()
    return {"role": "assistant", "content": said or None, "tool_calls": made}


def read_message(message: Message) -> Message:
    """A message as templates read it: its content is one text, the arguments of its calls are objects.

    Raises ValueError, LookupError, TypeError or AttributeError.
    """
    content = message.get("content") or ""
    texts = [part.get("text") for part in content] if isinstance(content, list) else [content]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"a content is text, not {content!r:.80}")
    told = {name: message[name] for name in ("name", "tool_call_id") if message.get(name)}
    if calls := message.get("tool_calls"):
        functions = [(call.get("id"), call["function"]["name"], call["function"]["arguments"]) for call in calls]
        told["tool_calls"] = [
            {"id": name, "type": "function", "function": {"name": function, "arguments": json.loads(arguments)}}
            for name, function, arguments in functions
        ]
    return {"role": message["role"], "content": "".join(texts), **told}


def read_following(messages: Sequence[Message]) -> str | tuple[str, ...] | None:
    """What messages after an answer say to it: the text of one user, or the results of tools; None: anything else."""
    roles = [each["role"] for each in messages]
    texts = tuple(each["content"] for each in messages)
    if roles == ["user"]:
        return str(texts[0])
    return texts if set(roles) == {"tool"} else None


def strip_messages(messages: Sequence[Message]) -> list[Message]:
    """Messages by which histories are compared: some clients strip what was said."""
    return [{**each, "content": each["content"].strip()} for each in messages]
