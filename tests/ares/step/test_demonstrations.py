"""Demonstrations: which tokens of a chat are learnt, with 26 published templates; rows that cannot be learnt from."""

import json
from pathlib import Path
from typing import Any

import pytest

from ares.config import DataConfig
from ares.data import DataError, write_chat
from ares.environments import Call, parse_calls
from ares.step import load_demonstrations
from tests.ares.data.code_rows import written
from tests.ares.data.published_templates import PUBLISHED, published

ASKED, SAID = "What is 12 + 30?", "The answer is 42."
AGAIN, THEN = "Try again.", "Nothing was found"
CHAT = [
    {"role": "user", "content": ASKED}, {"role": "assistant", "content": SAID},
    {"role": "user", "content": AGAIN}, {"role": "assistant", "content": THEN},
]  # fmt: skip
LATER_DIFFERS = {"qwen3", "phi3"}
"""Their templates write an earlier answer differently from the last one: without a thought, or the end of the text."""
ENDLESS = {"glm4"}
"""Its template writes nothing after an answer: the next turn's beginning ends it."""
UNTOLD = {"deepseek_r1", "minimax_m2"}
"""Their templates begin an answer with a thought that they leave out of a chat."""


def load(
    folder: Path, name: str, rows: list[dict[str, Any]], longest: int = 500, pairs: bool = False, **settings: Any
) -> Any:
    tokenizer = published(name)
    config = DataConfig(train=str(written(folder / "chats.jsonl", *rows)), **settings)
    ends = {tokenizer.convert_tokens_to_ids(PUBLISHED[name].end)}
    return load_demonstrations(config, tokenizer, ends, longest, pairs).frame


def learnt(name: str, row: Any) -> list[str]:
    """What is learnt of a row, piece by piece, without spaces around it."""
    pieces: list[list[int]] = [[]]
    for token, counts in zip(row["token_ids"][0], row["sampled"][0], strict=True):
        if counts:
            pieces[-1].append(token)
        elif pieces[-1]:
            pieces.append([])
    return [published(name).decode(piece).strip() for piece in pieces if piece]


@pytest.mark.parametrize("name", sorted(PUBLISHED.keys() - UNTOLD))
def test_each_answer_and_its_end_are_learnt_and_nothing_else(name: str, tmp_path: Path) -> None:
    end = "" if name in ENDLESS else PUBLISHED[name].end
    frame = load(tmp_path, name, [{"prompt": CHAT, "id": "a"}])
    pieces = [learnt(name, row) for _, row in frame.iterrows()]
    if name in LATER_DIFFERS:
        assert frame["id"].tolist() == ["a#0", "a#1"]
        assert [[piece.replace("<think>\n\n</think>\n\n", "") for piece in each] for each in pieces] == [
            [f"{SAID}{end}"], [f"{THEN}{end}"],
        ]  # fmt: skip
    else:
        assert frame["id"].tolist() == ["a"]
        (whole,) = pieces
        assert [piece.removesuffix(end).strip() + end for piece in whole] == [SAID + end, THEN + end]
        assert all(piece.endswith(end) for piece in whole)
    # What comes before the first answer is what the policy is asked in training.
    asked = write_chat(published(name), CHAT[:1], {})
    assert frame["prompt_token_ids"][0] == published(name)(asked, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name", sorted(UNTOLD))
def test_a_template_that_cannot_tell_what_is_learnt_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"chats.jsonl:1: message 2: the chat template of {name} changes what"):
        load(tmp_path, name, [{"prompt": CHAT}])


def test_a_prompt_with_an_answer_is_a_chat(tmp_path: Path) -> None:
    whole = load(tmp_path, "chatml", [{"messages": CHAT[:2]}], prompt_key="messages")
    apart = load(tmp_path, "chatml", [{"prompt": ASKED, "answer": SAID}, {"prompt": CHAT[:1], "answer": SAID}])
    for _, row in apart.iterrows():
        assert row.drop("id").equals(whole.iloc[0].drop("id"))


def test_an_answer_may_be_messages(tmp_path: Path) -> None:
    """TRL's conversational prompt and completion: the Python text of the list was learnt."""
    whole = load(tmp_path, "chatml", [{"prompt": CHAT}], system_prompt="Be brief.")
    apart = load(
        tmp_path, "chatml", [{"prompt": CHAT[:1], "completion": CHAT[1:]}, {"prompt": ASKED, "completion": CHAT[1:]}],
        answer_key="completion", system_prompt="Be brief.",
    )  # fmt: skip
    for _, row in apart.iterrows():
        assert row.drop("id").equals(whole.iloc[0].drop("id"))


def test_tools_are_shown_and_a_call_of_one_is_learnt_as_it_is_read(tmp_path: Path) -> None:
    """A row's tools were in no prompt, and arguments in OpenAI's form were learnt as JSON of JSON."""
    called = {"function": {"name": "look_up", "arguments": json.dumps({"word": "ok"})}}
    calls = {"role": "assistant", "content": None, "tool_calls": [called]}
    row = {"prompt": ASKED, "tools": [{"type": "function", "function": {"name": "look_up"}}]}
    (learnt,) = load(tmp_path, "qwen25", [row | {"answer": [calls]}]).itertuples()
    assert '{"name": "look_up"}' in learnt.prompt
    assert parse_calls(learnt.response[0], "hermes") == [Call("look_up", {"word": "ok"})]
    (pair,) = load(tmp_path, "qwen25", [row | {"chosen": [calls], "rejected": SAID}], pairs=True).itertuples()
    assert pair.prompt == learnt.prompt


def test_longer_chats_are_left_out(tmp_path: Path) -> None:
    rows = [{"prompt": ASKED, "answer": SAID}, {"prompt": ASKED, "answer": SAID * 9}]
    frame = load(tmp_path, "chatml", rows)
    short, long = (len(row["prompt_token_ids"]) + len(row["token_ids"][0]) for _, row in frame.iterrows())
    assert load(tmp_path, "chatml", rows, long - 1)["id"].tolist() == ["0"]
    with pytest.raises(DataError, match=f"all 2 rows are longer than .* = {short - 1} "):
        load(tmp_path, "chatml", rows, short - 1)


def test_an_answer_to_nothing_is_read_and_not_learnt(tmp_path: Path) -> None:
    greeting = {"role": "assistant", "content": "Hello!"}
    (text,) = load(tmp_path, "chatml", [{"prompt": [greeting, *CHAT]}]).itertuples()
    (plain,) = load(tmp_path, "chatml", [{"prompt": CHAT}]).itertuples()
    assert [list(ids) for ids in text.token_ids] == [list(ids) for ids in plain.token_ids]
    assert len(text.prompt_token_ids) > len(plain.prompt_token_ids)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"prompt": CHAT[1:2]}, r"chats.jsonl:2: the assistant answers nothing: a chat needs a message before"),
        ({"prompt": CHAT[:1]}, r"chats.jsonl:2: column 'prompt' has no message of an assistant .*column 'answer'"),
        ({"prompt": None}, r"chats.jsonl:2: column 'prompt' is missing or null"),
        ({"prompt": [*CHAT[:1], {"role": "assistant", "content": " "}]}, r"chats.jsonl:2: message 2 is empty"),
        ({"prompt": [*CHAT[:1], {"role": "assistant", "content": 4}]}, r"chats.jsonl:2: .*role and content .*are text"),
        ({"prompt": CHAT, "id": "1"}, r"chats.jsonl:2: id '1' is a duplicate of row 1"),
        ({"prompt": " ", "answer": SAID}, r"chats.jsonl:2: message 1 is empty"),
        *(({"prompt": ASKED, "answer": wrong}, r"chats.jsonl:2: column 'answer': an answer is text or a list of mess")
          for wrong in ({"content": SAID}, [SAID], [4])),
        ({"prompt": ASKED, "answer": str(CHAT[1:])}, r"chats.jsonl:2: this is a list of messages as text"),
        ({"prompt": json.dumps(CHAT), "answer": SAID}, r"chats.jsonl:2: this is a list of messages as text"),
        ({"prompt": [CHAT[0], CHAT[1] | {"weight": 0}]}, r"chats.jsonl:2: .* no message of an assistant \(.*weight 0"),
        *(({"prompt": [CHAT[0], CHAT[1] | {key: "Let me see."}]}, rf"jsonl:2: message 2: .* leaves out its '{key}'")
          for key in ("reasoning_content", "reasoning", "thinking")),
        ({"prompt": ASKED, "answer": "Say <|im_end|> now."}, r"jsonl:2: an answer holds '<.im_end.>', .*before 'now.'"),
        ({"prompt": CHAT, "images": ["a.png"]}, r"chats.jsonl: column 'images' or 'videos' shows something"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_learnt_from_is_named(row: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=told):
        load(tmp_path, "chatml", [{"prompt": CHAT, "id": "1"}, {"id": "2"} | row])


def test_an_answer_of_weight_0_is_read_and_not_learnt(tmp_path: Path) -> None:
    """OpenAI's form of it was learnt as any other."""
    chat = [CHAT[0], CHAT[1] | {"weight": 0}, CHAT[2], CHAT[3] | {"weight": 1}]
    ((_, row),) = load(tmp_path, "chatml", [{"prompt": [*chat, CHAT[0], CHAT[1] | {"weight": 0}]}]).iterrows()
    assert learnt("chatml", row) == [f"{THEN}<|im_end|>"]
    assert (SAID in row["prompt"], SAID in row["response"][0]) == (True, False)


BEGUN = """{% for m in messages %}{{ 'A: ' if m.role == 'assistant' else 'Q: ' }}{{ m.thinking }}{{ m.content }}\
{{ eos_token if m.role == 'assistant' else '\n' }}{% endfor %}{% if add_generation_prompt %}A: {% endif %}"""
"""A template that shows thoughts, and after whose prompt an answer's first token would begin with its space."""


def test_an_answer_is_learnt_from_its_first_token_as_in_sampling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first word was a token with the prompt's space, and so was not learnt."""
    tokenizer = published("chatml")
    monkeypatch.setattr(tokenizer, "chat_template", BEGUN)
    chat = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "answer", "thinking": "is "}]
    ((_, row),) = load(tmp_path, "chatml", [{"prompt": chat}]).iterrows()
    assert row["prompt_token_ids"] == tokenizer(f"Q: {ASKED}\nA: ")["input_ids"]
    assert learnt("chatml", row) == [f"is answer{tokenizer.eos_token}"]
    monkeypatch.setattr(published("zephyr"), "chat_template", BEGUN)  # whose tokenizer adds a space to every text
    with pytest.raises(DataError, match=r"jsonl:1: the answer 'is answer.* begins within a token"):
        load(tmp_path, "zephyr", [{"prompt": chat}])


def test_a_line_break_that_joins_the_template_stays_unlearnt_where_it_cannot_be_cut_off(tmp_path: Path) -> None:
    """One such answer refused the whole set."""
    ((_, row),) = load(tmp_path, "zephyr", [{"prompt": ASKED, "answer": "\nhello"}]).iterrows()
    assert learnt("zephyr", row) == ["hello</s>"]


def test_a_template_that_begins_an_answer_after_every_chat_is_no_end_within_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Llama 3 was published at first: all its demonstrations were refused."""
    plain = load(tmp_path, "llama3", [{"prompt": CHAT[:2]}]).iloc[0]
    always = "\n{%- if true -%}".join(published("llama3").chat_template.split("\n{%- if add_generation_prompt -%}"))
    monkeypatch.setattr(published("llama3"), "chat_template", always)
    ((_, row),) = load(tmp_path, "llama3", [{"prompt": CHAT[:2]}]).iterrows()
    assert learnt("llama3", row) == learnt("llama3", plain) == [f"{SAID}<|eot_id|>"]


@pytest.mark.parametrize("nothing", ["", [None], {"bytes": None, "path": None}])
def test_a_column_of_images_that_shows_nothing_is_no_picture(nothing: Any, tmp_path: Path) -> None:
    assert len(load(tmp_path, "chatml", [{"prompt": CHAT, "images": nothing}])) == 1


def test_an_id_that_another_chats_answer_is_given_is_named(tmp_path: Path) -> None:
    """InvalidIndexError, at the first step."""
    with pytest.raises(DataError, match=r"chats.jsonl:2: id 'a#0' is that of row 1 too"):
        load(tmp_path, "qwen3", [{"prompt": CHAT, "id": "a"}, {"prompt": CHAT[:2], "id": "a#0"}])


def test_a_message_that_the_template_leaves_out_is_named(tmp_path: Path) -> None:
    heard = {"role": "tool", "content": "It is 42."}
    with pytest.raises(
        DataError, match=r"jsonl:1: the chat template of zephyr leaves out message 3 of the chat, of role"
    ):
        load(tmp_path, "zephyr", [{"prompt": [*CHAT[:2], heard, CHAT[1]]}])


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"chats.jsonl: column 'prompt' is missing \(columns: messages\)"):
        load(tmp_path, "chatml", [{"messages": CHAT}])


@pytest.mark.parametrize("name", ["chatml", "llama3", "mistral_v1", "gemma2"])
def test_of_a_pair_two_answers_to_one_prompt_are_learnt_however_it_is_written(name: str, tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": text} for text in (SAID, THEN)]
    asked = write_chat(published(name), CHAT[:1], {})
    frame = load(
        tmp_path, name,
        [
            {"prompt": ASKED, "chosen": SAID, "rejected": THEN},
            {"prompt": CHAT[:1], "chosen": said[:1], "rejected": said[1:]},
            {"prompt": ASKED, "chosen": [*CHAT[:1], said[0]], "rejected": [*CHAT[:1], said[1]]},
            {"prompt": asked, "chosen": SAID, "rejected": THEN},  # of `ares export --pairs`
        ],
        pairs=True,
    )  # fmt: skip
    end = PUBLISHED[name].end
    for _, row in frame.iterrows():
        assert row["prompt_token_ids"] == published(name)(asked, add_special_tokens=False)["input_ids"]
        of_pair = list(zip(row["token_ids"], row["sampled"], strict=True))
        told = [published(name).decode([id for id, is_said in zip(*each, strict=True) if is_said]) for each in of_pair]
        assert [text.replace(f" {end}", end).strip() for text in told] == [SAID + end, THEN + end]


def test_of_a_whole_chat_and_its_prompt_nothing_is_lost(tmp_path: Path) -> None:
    """The prompt was thrown away whatever it said."""
    brief, hello = {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hello!"}
    for first in (brief, hello):
        asked = [first, CHAT[0]]
        apart = {"prompt": asked, "chosen": SAID, "rejected": THEN}
        whole = {"prompt": asked, "chosen": [*asked, CHAT[1]], "rejected": [*asked, CHAT[3]]}
        frame = load(tmp_path, "chatml", [apart, whole], pairs=True).drop(columns="id")
        assert frame.iloc[0].equals(frame.iloc[1])


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"rejected": SAID}, "chosen and rejected are the same text"),
        ({"rejected": None}, "a pair has columns 'prompt', 'chosen' and 'rejected': one is missing or null"),
        ({"rejected": [*CHAT[:2], {"role": "user", "content": THEN}]}, "column 'rejected': the last message is not"),
        ({"rejected": CHAT}, "chosen and rejected answer different prompts"),
        *(({"prompt": asked, "chosen": CHAT[:2], "rejected": SAID}, "column 'chosen' is a whole chat that does not")
          for asked in (AGAIN, [{"role": "system", "content": "Be brief."}, CHAT[0]], CHAT[2:3], CHAT[:2])),
    ],
)  # fmt: skip
def test_a_pair_that_cannot_be_learnt_from_is_named(row: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"chats.jsonl:1: {told}"):
        load(tmp_path, "chatml", [{"prompt": ASKED, "chosen": SAID} | row], pairs=True)
