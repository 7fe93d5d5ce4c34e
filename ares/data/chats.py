"""Chats: the messages of a prompt, and the text that a tokenizer's chat template makes of them.

Covered: plain text and lists of messages; templates that raise, and those that leave the question out. Not covered:
messages with pictures (ares/data/vision.py), tokens (ares/data/problems.py).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from ares.data.tables import DataError


def conversation(value: Any, format_prompt: str | None, where: str) -> list[dict[str, str]]:
    """The chat messages of a prompt. Raises DataError naming `where` when it is none."""
    if isinstance(value, str):
        if not value.strip():
            raise DataError(f"{where}: the prompt is empty")
        return [{"role": "user", "content": format_prompt.replace("{prompt}", value) if format_prompt else value}]
    messages = list(value) if isinstance(value, list | tuple | np.ndarray) else []
    if not messages or not all(
        isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))
        for message in messages
    ):
        raise DataError(
            f"{where}: a prompt is text or a list of messages whose role and content are text, this is {value!r:.80}"
        )
    if not messages[-1]["content"].strip():
        raise DataError(f"{where}: the prompt is empty")
    if messages[-1]["role"] == "assistant":
        raise DataError(
            f"{where}: the prompt ends with a message of the assistant, {messages[-1]['content']!r:.60}: the model "
            "would be shown the answer. Leave it out; what is to be answered comes last"
        )
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def rendered(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], where: str) -> str:
    """The text of a chat up to where the answer begins.

    Raises DataError naming `where` when the chat template raises, or leaves out what is asked.
    """
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # templates are programs, and raise what they like
        roles = ", ".join(message["role"] for message in messages)
        raise DataError(
            f"{where}: the chat template of {tokenizer.name_or_path} raises {type(error).__name__} on messages of "
            f"{roles}: {_one_line(error)}"
        ) from error
    asked = messages[-1]["content"]
    for part in [asked] if isinstance(asked, str) else [part.get("text", "") for part in asked]:
        if part.strip() not in text and "".join(part.split()) not in "".join(text.split()):
            raise DataError(
                f"{where}: the chat template of {tokenizer.name_or_path} leaves out what is asked: of {part!r:.60} it "
                f"makes {text!r:.120}"
            )
    return str(text)


def rendered_all(
    tokenizer: PreTrainedTokenizerBase, conversations: Iterable[tuple[int, list[dict[str, Any]]]], source: str
) -> list[str]:
    """`rendered`, of the rows of a data set: pairs of a row's number and its messages. Raises DataError."""
    if not tokenizer.chat_template:
        raise DataError(
            f"{tokenizer.name_or_path}: the tokenizer has no chat template; post-train an instruct model, "
            "or save a template with the tokenizer (tokenizer.chat_template = …)"
        )
    return [rendered(tokenizer, messages, f"{source}:{row}") for row, messages in conversations]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
