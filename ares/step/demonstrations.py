"""Demonstrations and pairs: chats whose answers are learnt, as tokens and which of them the assistant says.

    chat      user: 3+4         assistant: 7       user: and 9?         assistant: 16
    text      <user>3+4<end>⏎<assistant>7<end>⏎<user>and 9?<end>⏎<assistant>16<end>⏎
    learnt    ── the prompt ───────────7<end>·····························16<end>

What the template writes to begin an answer is not learnt, the token that ends one is, what follows it is not. A limit:
GLM-4's template writes no end, so none is learnt. Where a template writes earlier answers differently from the last one
(Qwen3 drops their thoughts), each answer is a sequence of its own, with what the model would see before it. Of a pair,
two answers to one prompt, only they are learnt. Not covered: pictures, the loss (algorithms/supervised.py).
"""

from bisect import bisect_left
from collections.abc import Collection
from itertools import pairwise
from typing import Any

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from algorithms.protocol import DataProto
from algorithms.supervised import pair_weights
from ares.config import Config, DataConfig, Source
from ares.data import (
    DataError,
    Problems,
    check_shown,
    check_template,
    checked_messages,
    conversation,
    has_media,
    is_missing,
    joined,
    missing_columns,
    named_rows,
    place,
    read_rows,
    refuse_messages_as_text,
    shown,
    tools_of,
    write_chat,
)
from ares.step.metrics import length_metrics
from ares.step.rows import SAMPLED

Span = tuple[int, int]
"""Where an answer begins and ends in a text, in characters."""
Answered = tuple[str, list[Span]]
"""A text and the answers in it that are learnt."""
THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Keys in which a message may have its thoughts beside its content."""
OF_ANSWERS = ["response", "token_ids", SAMPLED]
"""Columns that are lists, an answer each."""


def load_demonstrations(
    config: DataConfig, tokenizer: PreTrainedTokenizerBase, end_ids: Collection[int], longest: int, pairs: bool = False
) -> Problems:
    """The train set of the settings: a row a sequence or a pair, with columns id, prompt and prompt_token_ids (what
    comes before the first answer), and as lists of one or two: response, token_ids, sampled (which of them the
    assistant says: bool).

    end_ids: tokens at which a response ends. Longer sequences than `longest` tokens are left out and counted. Raises
    DataError naming the row.
    """
    check_template(tokenizer, config.chat_template_kwargs)
    if not tokenizer.is_fast:
        raise DataError(f"{tokenizer.name_or_path}: its tokenizer cannot tell which characters a token stands for")
    return joined({
        name: _load(source, config, tokenizer, end_ids, longest, pairs) for name, source in config.train_sets.items()
    })  # fmt: skip


def _load(
    source: Source, config: DataConfig, tokenizer: PreTrainedTokenizerBase, end_ids: Collection[int], longest: int,
    pairs: bool,
) -> Problems:  # fmt: skip
    raw = read_rows(source, config.train_split, limit=config.limit)
    if absent := missing_columns(raw, config, "nothing"):
        raise DataError(f"{shown(source)}: {absent[0]}")
    if has_media(raw, config):
        raise DataError(
            f"{shown(source)}: column {config.images_key!r} or {config.videos_key!r} shows something, and only text is "
            "learnt: leave it out, or name another column with data.images_key=…"
        )
    around = _around_answer(tokenizer, config.chat_template_kwargs) if pairs else ("", "")
    found: list[dict[str, Any]] = []
    line_of: dict[str, int | str] = {}
    for row, values in named_rows(raw, config):
        try:
            if row.wrong:
                raise DataError(row.wrong[0])
            if pairs:
                rows = [find_pair(tokenizer, values, config, around)]
            else:
                chat = demonstrated_chat(values, config)
                settings = config.chat_template_kwargs | tools_of(values, tokenizer)
                learnt = [number for number, message in enumerate(chat) if number and _is_learnt(message)]
                rows = [[each] for each in find_answers(tokenizer, chat, settings, learnt)]
            columns = [as_row(tokenizer, answered, end_ids) for answered in rows]
        except DataError as error:
            raise DataError(f"{place(source, row.line)}: {error}") from error
        for number, of_row in enumerate(columns):
            name = row.id if len(columns) == 1 else f"{row.id}#{number}"
            if (first := line_of.setdefault(name, row.line)) != row.line:
                raise DataError(
                    f"{place(source, row.line)}: id {name!r} is that of row {first} too: where the answers of a chat "
                    "are learnt one by one, #0, #1, … is added to its id"
                )
            found.append({"id": name} | of_row)
    frame = pd.DataFrame(found)
    lengths = frame["prompt_token_ids"].map(len) + frame["token_ids"].map(lambda of_row: max(map(len, of_row)))
    if (fits := lengths <= longest).any():
        return Problems(shown(source), frame[fits].reset_index(drop=True), int((~fits).sum()),
                        repeated=("token_ids", "sampled"))  # fmt: skip
    raise DataError(
        f"{shown(source)}: all {len(fits)} rows are longer than data.max_prompt_length + rollout.max_response_length "
        f"= {longest} (the shortest has {lengths.min()} tokens)"
    )


def demonstrated_chat(values: dict[str, Any], config: DataConfig) -> list[dict[str, Any]]:
    """The messages of a row up to the last one that an assistant says: those of data.prompt_key, and after a prompt the
    answer of data.answer_key, text or messages. Raises DataError."""
    chat, answer = values[config.prompt_key], values.get(config.answer_key)
    if is_missing(chat):
        raise DataError(f"column {config.prompt_key!r} is missing or null")
    messages = checked_messages(chat, config)
    if messages[-1]["role"] != "assistant" and not is_missing(answer):
        messages = checked_messages([*messages, *_said(answer, config.answer_key)], config)
    while messages and not _is_learnt(messages[-1]):
        messages.pop()
    if not messages:
        raise DataError(
            f"column {config.prompt_key!r} has no message of an assistant (those of weight 0 do not count), and there "
            f"is no answer in column {config.answer_key!r} (data.answer_key): nothing can be learnt from it"
        )
    _refuse_silence(messages)
    return messages


def _is_learnt(message: dict[str, Any]) -> bool:
    """Whether a message is an assistant's, unless OpenAI's `weight` says that it is not learnt."""
    return bool(message["role"] == "assistant" and message.get("weight") != 0)


def _said(answer: Any, column: str) -> list[Any]:
    """An answer, text or a number or messages, as messages. Raises DataError."""
    if isinstance(answer, list) and all(isinstance(each, dict) and "role" in each for each in answer):
        return answer
    if isinstance(answer, dict | list | bytes):
        raise DataError(f"column {column!r}: an answer is text or a list of messages, this is {answer!r:.80}")
    refuse_messages_as_text(str(answer))
    return [{"role": "assistant", "content": str(answer)}]


def _refuse_silence(messages: list[dict[str, Any]]) -> None:
    """Raise DataError where a user or an assistant says nothing."""
    for number, message in enumerate(messages, 1):
        is_said = message["content"].strip() or message.get("tool_calls")
        if message["role"] in ("user", "assistant") and not is_said:
            raise DataError(f"message {number} is empty")


def find_answers(
    tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, Any]], settings: dict[str, Any], learnt: list[int]
) -> list[Answered]:
    """The text of a chat with the places of its answers; one text an answer where earlier ones are written differently.

    learnt: which messages are answers, not the first: a greeting answers nothing. Raises DataError where the template
    does not write what was said, and thought, behind what begins an answer.
    """
    texts: list[tuple[str, Span]] = []
    for number in learnt:
        message = messages[number]
        before = write_chat(tokenizer, messages[:number], settings)
        text = write_chat(tokenizer, messages[: number + 1], settings, begins=False)
        said = text.removeprefix(before)
        there = "".join(said.split())
        if said == text or "".join(message["content"].split()) not in there:
            raise DataError(
                f"message {number + 1}: the chat template of {tokenizer.name_or_path} changes what the assistant "
                f"says, {message['content']!r:.60}, or what comes before it: it cannot tell what is learnt"
            )
        if dropped := [key for key in THOUGHTS if "".join(str(message.get(key) or "").split()) not in there]:
            raise DataError(
                f"message {number + 1}: the chat template of {tokenizer.name_or_path} leaves out its {dropped[0]!r}: "
                "put it into content as the model is to write it, or take a template that shows it"
            )
        texts.append((text, (len(before), len(text))))
    if not texts:
        raise DataError("the assistant answers nothing: a chat needs a message before an assistant's")
    whole = texts[-1][0]
    check_shown(tokenizer, messages, settings, whole, begins=False)
    if all(whole.startswith(text) for text, _ in texts):
        return [(whole, [span for _, span in texts])]
    return [(text, [span]) for text, span in texts]


def find_pair(
    tokenizer: PreTrainedTokenizerBase, values: dict[str, Any], config: DataConfig, around: tuple[str, str]
) -> list[Answered]:
    """The chosen and the rejected answer of a row, which stand in its columns of these names: text, messages that
    follow the prompt's, or whole chats. A prompt that ends as the template begins an answer is taken as it is, as
    `ares export RUN --pairs` writes it. around: what the template writes before and after an answer. Raises DataError.
    """
    prompt, (before, after), pair = values[config.prompt_key], around, list[Answered]()
    settings = config.chat_template_kwargs | tools_of(values, tokenizer)
    for name in ("chosen", "rejected"):
        answer: Any = values.get(name)
        if is_missing(prompt) or is_missing(answer):
            raise DataError(
                f"a pair has columns {config.prompt_key!r}, 'chosen' and 'rejected': one is missing or null"
            )
        said = _said(answer, name)
        if isinstance(prompt, str) and isinstance(answer, str) and before.strip() and prompt.endswith(before):
            text = prompt + answer + after
            pair.append((text, [(len(prompt), len(text))]))
            continue
        messages = _answered_chat(prompt, said, name, config)
        _refuse_silence(messages[:-1])
        if messages[-1]["role"] != "assistant":
            raise DataError(f"column {name!r}: the last message is not the assistant's")
        pair += find_answers(tokenizer, messages, settings, [len(messages) - 1])
    if pair[0] == pair[1]:
        raise DataError("chosen and rejected are the same text: there is nothing to prefer")
    if len({text[: spans[0][0]] for text, spans in pair}) > 1:
        raise DataError("chosen and rejected answer different prompts")
    return pair


def _answered_chat(prompt: Any, said: list[Any], column: str, config: DataConfig) -> list[dict[str, Any]]:
    """The messages of a prompt and of its answer, which may be a whole chat that begins with them. Raises DataError."""
    asked, whole = checked_messages(prompt, config), checked_messages(said, config)
    if whole[: len(asked)] == asked != whole:
        return whole
    if said[0]["role"] == "assistant":
        return checked_messages([*conversation(prompt, config), *said], config)
    raise DataError(
        f"column {column!r} is a whole chat that does not begin with the messages of column {config.prompt_key!r}, nor "
        "with the answer to them"
    )


def _around_answer(tokenizer: PreTrainedTokenizerBase, settings: dict[str, Any]) -> tuple[str, str]:
    """What the template writes between a question and its answer, and after the answer."""
    asked, answered = {"role": "user", "content": "QUESTION"}, {"role": "assistant", "content": "ANSWER"}
    before = write_chat(tokenizer, [asked], settings).rpartition("QUESTION")[2]
    return before, write_chat(tokenizer, [asked, answered], settings, begins=False).rpartition("ANSWER")[2]


def as_row(tokenizer: PreTrainedTokenizerBase, answers: list[Answered], end_ids: Collection[int]) -> dict[str, Any]:
    """Texts with the same prompt as columns of `load_demonstrations`."""
    tokenised = [tokenise(tokenizer, text, spans, end_ids) for text, spans in answers]
    first, begin = min(said.index(True) for _, said in tokenised), answers[0][1][0][0]
    while len({tuple(ids[:first]) for ids, _ in tokenised}) > 1:  # a token may join prompt and answer
        first -= 1
    return {
        "prompt": answers[0][0][:begin], "prompt_token_ids": tokenised[0][0][:first],
        "response": [text[begin:] for text, _ in answers],
        "token_ids": [ids[first:] for ids, _ in tokenised], "sampled": [said[first:] for _, said in tokenised],
    }  # fmt: skip


def tokenise(
    tokenizer: PreTrainedTokenizerBase, text: str, spans: list[Span], end_ids: Collection[int]
) -> tuple[list[int], list[bool]]:
    """Token ids of a text, and which of them are learnt. A token that would join an answer with what comes before it
    becomes two, as where the answer is sampled. Raises DataError where that changes the text."""
    ids, places = _encode(tokenizer, text, [])
    before = [(bisect_left(places, (begin,)) - 1, begin) for begin, _ in spans]
    joined = [
        (token, begin) for token, begin in before
        if token >= 0 and places[token][1] > begin and ids[token] not in tokenizer.added_tokens_decoder
    ]  # fmt: skip
    if joined:
        apart, places_apart = _encode(tokenizer, text, [begin for _, begin in joined])
        whole, parts = (tokenizer.decode(each, clean_up_tokenization_spaces=False) for each in (ids, apart))
        if whole == parts:
            ids, places = apart, places_apart
    said = [False] * len(ids)
    for begin, end in spans:
        first, beyond = bisect_left(places, (begin,)), bisect_left(places, (end,))
        joined_part = text[begin : places[first - 1][1]] if first else ""
        if joined_part.strip() or first == beyond:  # blanks may stay unlearnt
            raise DataError(
                f"the answer {text[begin:]!r:.60} begins within a token: take a chat template that writes no space "
                "before it"
            )
        ends = [number for number in range(first, beyond) if ids[number] in end_ids] or [beyond - 1]
        last = ends[0]  # behind the last one, Llama 3's first template begins another answer
        if rest := tokenizer.decode(ids[last + 1 : ends[-1]], skip_special_tokens=True).strip():
            raise DataError(
                f"an answer holds {tokenizer.convert_ids_to_tokens(ids[last])!r}, which ends a response, before "
                f"{rest!r:.60}: take it out"
            )
        said[first : last + 1] = [True] * (last + 1 - first)
    return ids, said


def _encode(tokenizer: PreTrainedTokenizerBase, text: str, cuts: list[int]) -> tuple[list[int], list[Span]]:
    """Token ids of a text that is cut at these places, and which characters each stands for."""
    ids, places = list[int](), list[Span]()
    for begin, end in pairwise([0, *cuts, len(text)]):
        encoded = tokenizer(text[begin:end], add_special_tokens=False, verbose=False, return_offsets_mapping=True)
        ids += encoded["input_ids"]
        places += [(begin + start, begin + stop) for start, stop in encoded["offset_mapping"]]
    return ids, places


def demonstrated_rows(problems: pd.DataFrame) -> pd.DataFrame:
    """Rows of such a train set as rows of samples: id, slot, sample, response, token_ids, sampled, log_probs (none: 0)
    and tokens (learnt ones)."""
    rows = problems[["id", *OF_ANSWERS]].assign(slot=range(len(problems)))
    rows = rows.explode(OF_ANSWERS, ignore_index=True)
    return rows.assign(
        sample=rows.groupby("slot").cumcount(),
        log_probs=rows["token_ids"].map(lambda ids: [0.0] * len(ids)),
        tokens=rows[SAMPLED].map(sum),
    )


def weigh(batch: DataProto, config: Config) -> dict[str, float]:
    """Write what an update needs besides the tokens into a batch. Returns metrics.

    Every token of a demonstration weighs 1. Of pairs the batch has the learner's log-probs, and the reference's.
    """
    mask = batch.tensor("response_mask")
    del batch.batch["engine_log_probs"]  # no engine sampled them
    weights, metrics = mask.float(), dict[str, float]()
    if config.learns_from == "pairs":
        log_probs = batch.tensor("old_log_probs"), batch.tensor("ref_log_probs")
        weights, metrics = pair_weights(*log_probs, mask, float(config.algorithm.kl.coef))  # type: ignore[arg-type]
    batch.batch["advantages"], batch.batch["importance_weights"] = weights, torch.ones(mask.shape)
    return metrics | length_metrics(batch)
