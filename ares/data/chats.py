"""Chats: the messages of a prompt, and the text that a tokenizer's chat template makes of them.

Covered: plain text and lists of messages; templates that raise, leave something out or write the date; tools, shown by
the template or described. Not covered: messages with pictures (ares/data/vision.py), tokens (ares/data/problems.py),
further turns (ares/data/turns.py).
"""

import json
import re
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig
from ares.data.sources import DataError, is_missing, without_nulls

DATE = datetime(2024, 7, 26)
"""What templates that write today's date are given (Llama's own, where it knows none): prompts that change overnight
would be other data, with which a run is not resumed."""

_AS_TEXT = re.compile(r"""\s*\[\s*\{\s*["'](role|content)["']\s*:""")
"""How a list of messages begins in JSON, or as Python shows it."""


def conversation(value: Any, config: DataConfig) -> list[dict[str, Any]]:
    """The chat messages of a prompt that is to be answered, as `checked_messages` has them.

    Raises DataError saying what is wrong with it; callers add file and row, as for `rendered`.
    """
    messages = checked_messages(value, config)
    if not messages[-1]["content"].strip():
        raise DataError("the prompt is empty")
    if messages[-1]["role"] == "assistant":
        raise DataError(f"the prompt ends with what the assistant says, {messages[-1]['content']!r:.60}: leave it out")
    return messages


def checked_messages(value: Any, config: DataConfig) -> list[dict[str, Any]]:
    """The messages of a chat, or of text, which a user says; data.system_prompt comes before them unless they begin
    with one of their own. Raises DataError."""
    if isinstance(value, str):
        refuse_messages_as_text(value)
        text = config.format_prompt.replace("{prompt}", value) if config.format_prompt and value.strip() else value
        value = [{"role": "user", "content": text}]
    messages = list(map(_with_content, value)) if isinstance(value, list) else []
    if not messages or not all(
        isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        for message in messages
    ):
        raise DataError(f"a prompt is text or messages whose role and content are text, this is {value!r:.80}")
    # Templates also show names, tool calls and their ids; parquet fills keys that a message does not have with null.
    # Llama 3.1's template refuses the empty list of calls that some sets have with every answer.
    messages = [
        {key: value for key, value in message.items() if value is not None and (key, value) != ("tool_calls", [])}
        for message in messages
    ]
    for message in messages:
        if not isinstance(calls := message.get("tool_calls", []), list):
            raise DataError(f"tool_calls of a message are a list of objects, this is {calls!r:.80}")
        if calls:
            message["tool_calls"] = list(map(_with_arguments, calls))
    if config.system_prompt is None or messages[0]["role"] == "system":
        return messages
    return [{"role": "system", "content": config.system_prompt}, *messages]


def refuse_messages_as_text(text: str) -> None:
    """Raise DataError for a list of messages that was written as text, as into a CSV."""
    if _AS_TEXT.match(text) and text.rstrip().endswith("]"):
        raise DataError(f"this is a list of messages as text, {text!r:.60}: write the file as JSON lines or parquet")


def _with_content(message: Any) -> Any:
    """A message that only calls tools, whose content is null in most sets, with an empty one."""
    is_call = isinstance(message, dict) and message.get("content") is None and message.get("tool_calls")
    return {**message, "content": ""} if is_call else message


def _with_arguments(call: Any) -> Any:
    """A tool call with its arguments as an object, which templates write as JSON: OpenAI's own form has text, which
    they would write as JSON once more. Raises DataError."""
    called = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(called, dict) or not isinstance(text := called.get("arguments"), str):
        return call
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise DataError(f"arguments of a tool call are an object, or the JSON of one, these are {text!r:.80}")
    told = {**called, "arguments": arguments}
    return {**call, "function": told} if "function" in call else told


def _with_text_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """A message whose tool calls have their arguments as JSON text."""
    calls = []
    for call in message.get("tool_calls", []):
        called = call.get("function", {})
        if isinstance(arguments := called.get("arguments"), dict):
            call = {**call, "function": {**called, "arguments": json.dumps(arguments, ensure_ascii=False)}}
        calls.append(call)
    return {**message, "tool_calls": calls} if calls else message


def rendered(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], settings: Mapping[str, Any]) -> str:
    """The text of a chat up to where the answer begins. settings: data.chat_template_kwargs.

    Raises DataError when the chat template raises or leaves out what is asked, or as `check_shown`.
    """
    text = write_chat(tokenizer, messages, settings)
    if messages[-1]["role"] != "tool" and (part := _part_not_in(text, messages[-1]["content"])):
        raise DataError(
            f"the chat template of {tokenizer.name_or_path} leaves out what is asked: of {part!r:.60} it "
            f"makes {text!r:.120}"
        )
    check_shown(tokenizer, messages, settings, text)
    return text


def check_shown(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], settings: Mapping[str, Any], text: str,
    begins: bool = True,
) -> None:  # fmt: skip
    """Raise DataError where `write_chat` has left a message out of `text`: it would be the same with another in its
    place (`/no_think` only switches a mode), or lacks the name of a function that is called.

    What an assistant says is not looked for: templates leave out thoughts, and some what stands beside a call.
    """
    template = f"the chat template of {tokenizer.name_or_path}"
    for number, message in enumerate(messages):
        role, content = message["role"], message["content"]
        for name in filter(None, map(_name_called, message.get("tool_calls", []))):
            if name not in text:
                raise DataError(f"{template} leaves out that message {number + 1} of the chat calls {name!r}")
        if role == "assistant" or not _part_not_in(text, content):
            continue
        others = [*messages[:number], {**message, "content": "?"}, *messages[number + 1 :]]
        if text != write_chat(tokenizer, others, settings, begins):
            continue
        if role == "system" and number == 0 < len(messages) - 1:
            raise DataError(f"{template} ignores the system message {content!r:.60}: put it into the user's message")
        raise DataError(f"{template} leaves out message {number + 1} of the chat, of role {role!r}: {content!r:.60}")


def _part_not_in(text: str, content: str | list[Any]) -> str:
    """The first part of a message's content that a text does not hold, however spaces are written; "" if it does."""
    parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    absent = (part for part in parts if part.strip() not in text)
    return next((part for part in absent if "".join(part.split()) not in "".join(text.split())), "")


def _name_called(call: Any) -> str:
    """The name of the function that a tool call names; "" where none does."""
    called = call.get("function", call) if isinstance(call, dict) else None
    return str(called.get("name") or "") if isinstance(called, dict) else ""


def write_chat(
    tokenizer: PreTrainedTokenizerBase, messages: list[Any], settings: Mapping[str, Any], begins: bool = True
) -> str:
    """The text of a chat as the template writes it; `begins`: up to where the answer begins.

    Raises DataError saying what the template raises.
    """
    if "strftime_now" in str(tokenizer.chat_template):
        settings = {"strftime_now": DATE.strftime} | dict(settings)
    how: dict[str, Any] = {"tokenize": False, "add_generation_prompt": begins, **settings}
    try:
        try:
            return str(tokenizer.apply_chat_template(messages, **how))
        except TypeError:  # DeepSeek's templates want arguments as text
            told = list(map(_with_text_arguments, messages))
            if told == messages:
                raise
            return str(tokenizer.apply_chat_template(told, **how))
    except Exception as error:  # templates are programs, and raise what they like
        roles = ", ".join(message["role"] for message in messages)
        raise DataError(
            f"the chat template of {tokenizer.name_or_path} raises {type(error).__name__} on messages of "
            f"{roles}: {' '.join(str(error).split())}"
        ) from error


def check_template(tokenizer: PreTrainedTokenizerBase, settings: Mapping[str, Any]) -> None:
    """Raise DataError where there is no chat template, or one that does not look at data.chat_template_kwargs."""
    template = str(tokenizer.chat_template or "")
    if not template:
        raise DataError(
            f"{tokenizer.name_or_path}: the tokenizer has no chat template; post-train an instruct model, "
            "or save a template with the tokenizer (tokenizer.chat_template = …)"
        )
    for name in settings:
        if not re.search(rf"\b{re.escape(name)}\b", template):
            raise DataError(
                f"data.chat_template_kwargs.{name}: the chat template of {tokenizer.name_or_path} does not look at it"
            )


def tools_of(row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """The argument with which the chat template shows a row's own tools: its column `tools`, a list of schemas or the
    JSON of one, as TRL has it. Raises DataError."""
    given = row.get("tools")
    if is_missing(given) or given in ("", "null"):
        return {}
    try:
        tools = without_nulls(json.loads(given) if isinstance(given, str) else given)
    except (ValueError, RecursionError):
        tools = None
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise DataError(f"column 'tools' is a list of schemas, or the JSON of one, this is {given!r:.80}")
    if tools and not re.search(r"\btools\b", str(tokenizer.chat_template)):
        raise DataError(
            f"the chat template of {tokenizer.name_or_path} shows no tools, and the row has some in column 'tools': "
            "describe them in the prompt, and leave the column out"
        )
    return {"tools": tools} if tools else {}


def odd_in_template(
    tokenizer: PreTrainedTokenizerBase, settings: Mapping[str, Any], end_ids: Collection[int]
) -> list[str]:
    """What is odd about a chat template: no place where the answer begins, turns that end in no end token.

    end_ids: tokens at which a response ends.
    """
    asked = [{"role": "user", "content": "a"}]
    answered = [*asked, {"role": "assistant", "content": "OMEGA"}]
    try:
        begun, unbegun = (write_chat(tokenizer, asked, settings, begins) for begins in (True, False))
        whole = write_chat(tokenizer, answered, settings, begins=False)
    except DataError as error:
        return [str(error).replace(f"the chat template of {tokenizer.name_or_path}", "it")]
    odd = []
    if begun == unbegun:
        odd.append("it begins no turn of the assistant (add_generation_prompt changes nothing): a model may go on with "
                   "the user's")  # fmt: skip
    after = tokenizer(whole.rpartition("OMEGA")[2], add_special_tokens=False)["input_ids"]
    if not set(after) & set(end_ids):
        ends = tokenizer.decode(after) if after else "nothing"
        names = ", ".join(map(repr, tokenizer.convert_ids_to_tokens(list(end_ids))))
        odd.append(f"it ends a turn with {ends!r}, which is not an end token ({names}): responses run to their limit. "
                   "Name it in the model's generation_config (eos_token_id), or take an instruct model")  # fmt: skip
    return odd


FORMATS = {
    "hermes": (
        '<tool_call>\n{"name": "TOOL", "arguments": {"NAME": VALUE}}\n</tool_call>',
        "To call a tool, write a JSON object between tags:",
        "<tool_call>",
    ),
    "llama": (
        '{"name": "TOOL", "parameters": {"NAME": VALUE}}',
        "To call a tool, answer with a JSON object and nothing else:",
        '"parameters"',
    ),
    "python": (
        "```python\nprint(TOOL(NAME=VALUE))\n```",
        "To call tools, write a fenced block of Python, in which they are functions:",
        "```",
    ),
}
"""How a call is written, the sentence that says so, and what a template contains that says so itself."""


def show_tools(
    config: DataConfig, tokenizer: PreTrainedTokenizerBase, schemas: list[dict[str, Any]], call_format: str
) -> tuple[DataConfig, str]:
    """The data settings with which prompts show tools and how they are called, and what they add for it to a prompt.

    schemas: {"type": "function", "function": {"name", "description", "parameters"}} each; none change nothing. A
    template that shows tools is given them as `tools`; what it does not say is added to data.system_prompt, or put
    before the problem (data.format_prompt) if it takes no system message. `chat_with_tools` adds it to other chats.
    """
    if not schemas:
        return config, ""
    example, sentence, sign = FORMATS[call_format]
    # A schema of a name alone: what else the text holds is the template's own.
    shown = _written(config, tokenizer, tools=[{"type": "function", "function": {"name": _NAME}}])
    additions = [] if sign in shown else [f"{sentence}\n{example}"]
    if _NAME in shown:
        config = config.model_copy(update={"chat_template_kwargs": config.chat_template_kwargs | {"tools": schemas}})
    else:
        listed = "\n".join(json.dumps(schema.get("function", schema), ensure_ascii=False) for schema in schemas)
        additions.insert(0, f"You may call these tools:\n{listed}")
    text = "\n\n".join(additions)
    if not text:
        return config, text
    if _NAME in _written(config, tokenizer, system=_NAME):
        whole = text if config.system_prompt is None else f"{config.system_prompt}\n\n{text}"
        return config.model_copy(update={"system_prompt": whole}), text
    return config.model_copy(update={"format_prompt": f"{text}\n\n{config.format_prompt or '{prompt}'}"}), text


def chat_with_tools(messages: Any, config: DataConfig, text: str) -> Any:
    """A prompt of messages that data.system_prompt is not put before, with what `show_tools` adds in its first message:
    it has a system message of its own, or the template takes none. Other prompts stay as they are."""
    first = messages[0] if isinstance(messages, list) and messages else None
    if not text or not isinstance(first, dict) or not isinstance(content := first.get("content"), str):
        return messages
    if first.get("role") == "system":
        content = f"{content}\n\n{text}"
    elif text in (config.system_prompt or ""):
        return messages
    else:
        content = f"{text}\n\n{content}"
    return [{**first, "content": content}, *messages[1:]]


def client_chat(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase,
    template: Mapping[str, Any], call_format: str,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:  # fmt: skip
    """The chat of a client that brings its own tools, as `rendered` takes it: messages, and settings of the template.

    template: data.chat_template_kwargs. Raises DataError.
    """
    config = DataConfig(train="a client's", chat_template_kwargs=dict(template), system_prompt=None)
    config, text = show_tools(config, tokenizer, tools, call_format)
    return conversation(chat_with_tools(messages, config, text), config), config.chat_template_kwargs


_NAME = "a_tool_of_this_name"


def _written(config: DataConfig, tokenizer: PreTrainedTokenizerBase, system: str = "", **settings: Any) -> str:
    """What the template makes of a short chat; "" where it raises."""
    asked = [{"role": "user", "content": "?"}]
    messages = [{"role": "system", "content": system}, *asked] if system else asked
    try:
        return write_chat(tokenizer, messages, config.chat_template_kwargs | settings)
    except DataError:
        return ""
