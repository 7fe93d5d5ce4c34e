"""Messages as OpenAI's clients write and read them: calls of tools are parts of their own, not text.

    response  "Let me see. <tool_call>{"name": "add", …}</tool_call>"     ──▶ {"role": "assistant", "tool_calls": […]}
    request   messages: ours, as the client kept it, then what is new     ──▶ the text of a user, or results of tools

Not covered: HTTP (ares/serving.py, ares/environments/agents.py), chat templates (ares/data).
"""

import json
from collections.abc import Sequence
from typing import Any

from ares.environments.call_formats import Call, parse_calls
from rewards.thinking import without_thinking

Message = dict[str, Any]
MOST_BYTES = 8 << 20
"""Of a request."""


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
