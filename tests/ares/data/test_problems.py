import copy
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ares.config.run import DataConfig
from ares.data.check import check_rows
from ares.data.problems import OWN, DataError, Problems, joined, load_held_out, load_problems
from tests.ares.builders import MODEL, tokenizer, with_template
from tests.ares.data.code_rows import written

GOOD = {"id": "a", "prompt": "1+1=?", "answer": "2"}


def jsonl(path: Path, rows: list[Any]) -> str:
    return str(written(path, *rows))


def read(source: str, **settings: Any) -> Problems:
    return load_problems(source, "train", DataConfig(train=source, **settings), tokenizer())


def refusal(source: str, **settings: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(source, **settings)
    return str(caught.value)


# ---- what is understood --------------------------------------------------------------------------------------------


def test_a_row_becomes_the_chat_templates_prompt_and_its_tokens(tmp_path: Path) -> None:
    problems = read(jsonl(tmp_path / "p.jsonl", [GOOD]))
    (row,) = problems.frame.to_dict("records")
    assert row["prompt"] == "<|im_start|>user\n1+1=?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer().decode(row["prompt_token_ids"]) == row["prompt"]
    assert (row["id"], row["answer"], problems.overlong, len(problems)) == ("a", "2", 0, 1)


def test_the_format_prompt_is_put_around_the_problem(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "p.jsonl", [GOOD | {"prompt": "{x} {prompt} \U0001f600"}])
    prompt = read(source, format_prompt="Solve {prompt}, {y}.").frame["prompt"][0]
    assert "user\nSolve {x} {prompt} \U0001f600, {y}.<|im_end|>" in prompt


def test_a_system_prompt_comes_before_prompts_that_have_none(tmp_path: Path) -> None:
    asked, own = {"role": "user", "content": "1+1=?"}, {"role": "system", "content": "Be brief."}
    rows = [GOOD, GOOD | {"id": "b", "prompt": [asked]}, GOOD | {"id": "c", "prompt": [own, asked]}]
    source = jsonl(tmp_path / "p.jsonl", rows)
    prompts = read(source, system_prompt="Think.", format_prompt="Now {prompt}").frame["prompt"].tolist()
    systems = [text.partition("<|im_end|>")[0].removeprefix("<|im_start|>system\n") for text in prompts]
    assert systems == ["Think.", "Think.", "Be brief."]
    asked_as = [text.partition("user\n")[2].partition("<|im_end|>")[0] for text in prompts]
    assert asked_as == ["Now 1+1=?", "1+1=?", "1+1=?"]  # chats are left as they are


def test_the_chat_template_is_given_its_settings_and_one_it_does_not_look_at_is_refused(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "p.jsonl", [GOOD])
    switch = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    thinking = with_template(tokenizer().chat_template + switch)

    def prompt(**settings: Any) -> str:
        config = DataConfig(train=source, chat_template_kwargs=settings)
        return str(load_problems(source, "train", config, thinking).frame["prompt"][0])

    assert prompt(enable_thinking=False) == prompt() + "<think></think>"
    assert prompt(enable_thinking=True) == prompt()
    with pytest.raises(DataError, match=r"chat_template_kwargs\.enable_thinkin: the chat template of .* does not look"):
        prompt(enable_thinkin=False)
    with pytest.raises(DataError, match=r"chat_template_kwargs\.tokenize: the chat template of .* does not look"):
        prompt(tokenize=True)
    with pytest.raises(DataError, match="raises TypeError"):
        prompt(messages=[])


def templated(template: str, source: str, **settings: Any) -> Problems:
    return load_problems(source, "train", DataConfig(train=source, **settings), with_template(template))


def test_a_template_that_writes_the_date_makes_the_same_prompts_tomorrow(tmp_path: Path) -> None:
    """Llama 3.2's and gpt-oss' do: a run could not be resumed on another day, since its data had changed."""
    source = jsonl(tmp_path / "p.jsonl", [GOOD])
    template = "Today is {{ strftime_now('%d %b %Y') }}. {{ messages[0].content }}"
    assert templated(template, source).frame["prompt"][0] == "Today is 26 Jul 2024. 1+1=?"
    own = (
        "{% if not date is defined %}{% set date = strftime_now('%Y') %}{% endif %}{{ date }}{{ messages[0].content }}"
    )
    assert templated(own, source).frame["prompt"][0] == "20241+1=?"
    assert templated(own, source, chat_template_kwargs={"date": "1999: "}).frame["prompt"][0] == "1999: 1+1=?"


def test_a_system_message_that_the_template_ignores_is_an_error(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "p.jsonl", [GOOD])
    ignoring = "{% for each in messages %}{% if each.role == 'user' %}{{ each.content }}{% endif %}{% endfor %}"
    with pytest.raises(DataError, match=r"p\.jsonl:1: the chat template of .* ignores the system message 'Be brief.'"):
        templated(ignoring, source, system_prompt="Be brief.")
    own = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1=?"}]
    with pytest.raises(DataError, match="put it into the user's message"):
        templated(ignoring, jsonl(tmp_path / "own.jsonl", [GOOD | {"prompt": own}]))
    assert templated(ignoring, source).frame["prompt"][0] == "1+1=?"
    switching = "{{ '<think>' if messages[0].content != '/no_think' }}{{ messages[-1].content }}"
    assert templated(switching, source, system_prompt="/no_think").frame["prompt"][0] == "1+1=?"


@pytest.mark.parametrize("said", ["", None])
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_template_is_shown_tool_calls(suffix: str, said: str | None, tmp_path: Path) -> None:
    """Of an assistant that only calls a tool nothing else is left; most sets have null for what it says."""
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    turns = [
        {"role": "user", "content": "Warm?", "tool_calls": []},
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {"role": "tool", "content": "12 °C", "tool_call_id": "c1"},
    ]
    path = written(tmp_path / f"p.{suffix}", GOOD | {"prompt": turns})
    template = (
        "{% for each in messages %}{{ each.content }}{% if 'tool_calls' in each and each.tool_calls | length != 1 %}"
        "{{ raise_exception('as Llama 3.1') }}{% endif %}{% for call in each.tool_calls or [] %}"
        "{{ call.function.name }}{% endfor %}{{ each.tool_call_id }}|{% endfor %}"
    )
    assert templated(template, str(path)).frame["prompt"][0] == "Warm?|weather|12 °Cc1|"


SEES_USERS = "{% for each in messages if each.role != 'tool' %}{{ each.role }}: {{ each.content }}\n{% endfor %}"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"role": "tool", "content": "12 °C"}, "leaves out message 2 of the chat, of role 'tool': '12 °C'"),
        ({"role": "assistant", "content": "Wait.", "tool_calls": [{"function": {"name": "weather"}}]},
         "leaves out that message 2 of the chat calls 'weather'"),
        ({"role": "assistant", "content": "Wait.", "tool_calls": [{"name": "weather"}]}, "calls 'weather'"),
        ({"role": "assistant", "content": "Wait.", "tool_calls": "[]"}, "tool_calls of a message are a list"),
        *(({"role": "assistant", "content": "Wait.", "tool_calls": [{"name": "weather", "arguments": wrong}]},
           "arguments of a tool call are an object, or the JSON of one") for wrong in ("", "[1]", '{"city": ')),
    ],
)  # fmt: skip
def test_a_message_that_the_template_leaves_out_is_an_error(message: Any, said: str, tmp_path: Path) -> None:
    """Only the last message and a first one of the system were looked for."""
    asked = {"role": "user", "content": "Warm?"}
    with pytest.raises(DataError, match=rf"p\.jsonl:1: .*{said}"):
        templated(SEES_USERS, jsonl(tmp_path / "p.jsonl", [GOOD | {"prompt": [asked, message, asked]}]))


def test_a_message_may_be_written_in_another_form(tmp_path: Path) -> None:
    """As Llama 3.1 writes what tools return."""
    turns = [{"role": "user", "content": "Warm?"}, {"role": "tool", "content": 'a "b"\nc'}]
    source = jsonl(tmp_path / "p.jsonl", [GOOD | {"prompt": turns}])
    template = "{% for each in messages %}{{ each.content | tojson }}{% endfor %}"
    assert templated(template, source).frame["prompt"][0] == '"Warm?""a \\"b\\"\\nc"'


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("written_as", [dict, json.dumps])
def test_calls_of_functions_with_other_arguments_are_shown_with_their_own(
    written_as: Callable[[Any], Any], suffix: str, tmp_path: Path
) -> None:
    """Parquet gives all structs of a column the same keys: each call had the others' arguments too, as null. OpenAI's
    arguments are JSON text, which templates wrote as JSON once more."""
    calls = [{"function": {"name": "f", "arguments": each}} for each in ({"city": "P"}, {"n": [{"a": 1}, {"b": 2}]})]
    asked = [
        {"function": each["function"] | {"arguments": written_as(each["function"]["arguments"])}} for each in calls
    ]
    turns = [{"role": "user", "content": "Warm?"}, {"role": "assistant", "content": "", "tool_calls": asked},
             {"role": "tool", "content": "12 °C", "tool_calls": None}]  # fmt: skip
    template = "{% for each in messages %}{{ each.content }}{% for call in each.tool_calls or [] %}" \
        "{{ call | tojson }}{% endfor %}{% endfor %}"  # fmt: skip
    path = written(tmp_path / f"p.{suffix}", GOOD | {"prompt": turns})
    text = templated(template, str(path)).frame["prompt"][0]
    shown = text.removeprefix("Warm?").removesuffix("12 °C").replace("}{", "}\n{").splitlines()
    assert sorted(map(json.loads, shown), key=str) == sorted(calls, key=str)


def test_a_template_that_adds_arguments_to_text_as_deepseeks_has_them_as_text(tmp_path: Path) -> None:
    call = {"function": {"name": "f", "arguments": '{"city": "Zürich"}'}}
    turns = [{"role": "user", "content": "Warm?"}, {"role": "assistant", "content": None, "tool_calls": [call]},
             {"role": "tool", "content": "12 °C"}]  # fmt: skip
    template = "{% for each in messages %}{{ each.content }}{% for call in each.tool_calls or [] %}" \
        "{{ call.function.name + ': ' + call.function.arguments }}{% endfor %}{% endfor %}"  # fmt: skip
    text = templated(template, str(written(tmp_path / "p.jsonl", GOOD | {"prompt": turns}))).frame["prompt"][0]
    assert text == 'Warm?f: {"city": "Zürich"}12 °C'


SHOWS_TOOLS = "{{ messages[0].content }}{% for each in tools or [] %}{{ each | tojson }}{% endfor %}"
TOOLS = [{"function": {"name": "weather", "parameters": {"city": "text"}}}, {"function": {"name": "time"}}]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("written_as", [list, json.dumps])
def test_the_template_is_shown_the_tools_of_a_row(
    written_as: Callable[[Any], Any], suffix: str, tmp_path: Path
) -> None:
    rows = [GOOD | {"tools": written_as(TOOLS)}, GOOD | {"id": "b", "tools": written_as([])}, GOOD | {"id": "c"}]
    rows += [GOOD | {"id": "d", "tools": "null"}] if written_as is json.dumps else []
    prompts = templated(SHOWS_TOOLS, str(written(tmp_path / f"p.{suffix}", *rows))).frame["prompt"].tolist()
    assert prompts == ["1+1=?" + "".join(map(json.dumps, TOOLS)), *["1+1=?"] * (len(rows) - 1)]


@pytest.mark.parametrize(
    ("template", "tools", "said"),
    [
        (SHOWS_TOOLS, "[{", "column 'tools' is a list of schemas, or the JSON of one, this is '\\[{'"),
        (SHOWS_TOOLS, ["weather"], "column 'tools' is a list of schemas"),
        (SEES_USERS, TOOLS, "the chat template of .* shows no tools, and the row has some"),
    ],
)
def test_tools_of_a_row_that_no_prompt_can_show_are_an_error(
    template: str, tools: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=rf"p\.jsonl:1: {said}"):
        templated(template, jsonl(tmp_path / "p.jsonl", [GOOD | {"tools": tools}]))


def test_columns_with_names_of_ours_are_the_rows_own(tmp_path: Path) -> None:
    """`stops` ended responses at its characters, `begun` was put before programs."""
    own = {"stops": "Lyon", "media_references": "a.png", "begun": "1999", "base_tests": 1, "episode_error": "none"}
    frame = read(jsonl(tmp_path / "p.jsonl", [GOOD | own])).frame
    assert not own.keys() & set(frame)
    assert {name: frame[f"{OWN}{name}"][0] for name in own} == own


def test_a_binary_answer_is_refused(tmp_path: Path) -> None:
    pd.DataFrame([GOOD | {"answer": b"2"}]).to_parquet(tmp_path / "p.parquet")
    assert "p.parquet:1: the answer is a list, an object or bytes" in refusal(str(tmp_path / "p.parquet"))


def test_held_out_sets_have_their_own_columns_and_names(tmp_path: Path) -> None:
    train = jsonl(tmp_path / "t.jsonl", [GOOD])
    first = jsonl(tmp_path / "a.jsonl", [{"problem": f"{n}+1=?", "solution": n + 1, "level": n} for n in range(3)])
    second = jsonl(tmp_path / "b.jsonl", [GOOD, GOOD | {"id": "z"}])
    sets = {"aime": {"source": first, "prompt_key": "problem", "answer_key": "solution"}, "own": second}
    config = DataConfig(train=train, validation=sets)
    problems = joined(load_held_out(config, tokenizer(), "answer"))
    assert problems.frame["id"].tolist() == ["aime/0", "aime/1", "aime/2", "own/a", "own/z"]
    assert problems.frame["answer"].tolist() == [1, 2, 3, "2", "2"]
    assert problems.frame["level"].tolist() == [0, 1, 2, None, None]
    assert (problems.source, config.held_out_names) == (f"{first}, {second}", ["aime", "own"])
    whole = load_problems(second, "test", config, tokenizer())
    alone = joined(load_held_out(DataConfig(train=train, validation=second), tokenizer(), "answer"))
    assert alone.digest() == whole.digest()  # of one without a name all stays as it was
    assert load_held_out(DataConfig(train=train), tokenizer(), "answer") == {}
    wrong = DataConfig(train=train, validation={"aime": first})
    with pytest.raises(DataError, match=r"column 'prompt' is missing .* data\.prompt_key=…"):
        load_held_out(wrong, tokenizer(), "answer")


def test_verls_row_without_a_ground_truth_is_named_and_one_may_be_text(tmp_path: Path) -> None:
    row = {"prompt": "1+33=?", "reward_model": {"style": "rule", "ground_truth": "34"}}
    for suffix in ("jsonl", "parquet"):  # in which the absent key becomes a null
        wrong = written(tmp_path / f"p.{suffix}", row, row | {"reward_model": {"style": "rule"}})
        assert f"p.{suffix}:2: reward_model has no ground_truth" in refusal(str(wrong))
    as_text = pd.DataFrame([row | {"reward_model": json.dumps(row["reward_model"])}])
    as_text.to_csv(tmp_path / "p.csv", index=False)
    assert read(str(tmp_path / "p.csv")).frame["answer"].tolist() == ["34"]
    as_text.assign(reward_model='{"ground').to_csv(tmp_path / "p.csv", index=False)
    assert "p.csv:1: reward_model is not readable as JSON" in refusal(str(tmp_path / "p.csv"))


def test_the_digest_does_not_depend_on_the_order_of_a_set_of_names(tmp_path: Path) -> None:
    """Two columns that ours replace were kept in the order of a Python set, which differs between processes."""
    source = jsonl(
        tmp_path / "p.jsonl", [{"answer": "a", "id": "b", "prompt": "c", "q": "1+1=?", "gold": "2", "no": 1}]
    )
    frame = read(source, prompt_key="q", answer_key="gold", id_key="no").frame
    assert [name for name in map(str, frame) if name.startswith(OWN)] == [
        f"{OWN}{name}" for name in ("answer", "id", "prompt", "q", "no")
    ]


def test_overlong_prompts_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [GOOD, GOOD | {"id": "b", "prompt": "1+1=? " * 20}, GOOD | {"id": "c"}]
    source = jsonl(tmp_path / "p.jsonl", rows)
    whole = read(source)
    limit = len(whole.frame["prompt_token_ids"][0])
    problems = read(source, max_prompt_length=limit)
    assert problems.frame["id"].tolist() == ["a", "c"]
    assert (problems.overlong, whole.overlong) == (1, 0)
    told = f"all 3 prompts are longer than data.max_prompt_length=3 (the shortest has {limit} tokens)"
    assert told in refusal(source, max_prompt_length=3)


def test_rows_are_looked_up_by_id_in_the_order_asked_for(tmp_path: Path) -> None:
    problems = read(jsonl(tmp_path / "p.jsonl", [GOOD | {"id": name} for name in "abc"]))
    assert problems.rows(["c", "a", "c"])["id"].tolist() == ["c", "a", "c"]
    assert problems.first(2).frame["id"].tolist() == ["a", "b"]
    assert len(problems.first(None)) == 3


def test_the_digest_covers_prompts_and_answers_and_not_the_file(tmp_path: Path) -> None:
    digest = read(jsonl(tmp_path / "p.jsonl", [GOOD])).digest()
    assert read(jsonl(tmp_path / "q.jsonl", [GOOD])).digest() == digest
    for key in GOOD:
        assert read(jsonl(tmp_path / "q.jsonl", [GOOD | {key: "9"}])).digest() != digest


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"\x89PNG", b"\x89PNH"),
        (datetime.date(9999, 1, 1), datetime.date(9999, 1, 2)),
        (1e-12, 2e-12),
    ],
)
def test_every_digit_and_columns_that_no_json_holds_are_in_the_digest(one: Any, other: Any, tmp_path: Path) -> None:
    """A recording or a scan beside the text, a date that means never: the run ended with a traceback."""

    def digest(extra: Any) -> str:
        pq.write_table(pa.Table.from_pylist([GOOD | {"extra": extra}]), tmp_path / "p.parquet")
        return read(str(tmp_path / "p.parquet")).digest()

    assert digest(one) == digest(one)
    assert digest(one) != digest(other)


# ---- what is refused, and how --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"id": "b", "prompt": "2+2=?"}, "p.jsonl:2: column 'answer' is missing or null"),
        (GOOD | {"id": "b", "answer": None}, "p.jsonl:2: column 'answer' is missing or null"),
        (GOOD | {"id": "b", "prompt": None}, "p.jsonl:2: column 'prompt' is missing or null"),
        (GOOD | {"id": None}, "p.jsonl:2: column 'id' is missing or null"),
        (GOOD | {"id": "b", "answer": " "}, "p.jsonl:2: the answer is empty"),
        (GOOD | {"id": "b", "prompt": ""}, "p.jsonl:2: the prompt is empty"),
        (GOOD | {"id": "b", "prompt": " \n"}, "p.jsonl:2: the prompt is empty"),
        (GOOD | {"id": "b", "prompt": []}, "p.jsonl:2: a prompt is text or messages"),
        (GOOD | {"id": "b", "prompt": 7}, "p.jsonl:2: a prompt is text or messages"),
        (GOOD | {"id": "b", "prompt": [{"role": "user"}]}, "p.jsonl:2: a prompt is text or messages"),
        (GOOD | {"id": "b", "prompt": ["hello"]}, "p.jsonl:2: a prompt is text or messages"),
        (GOOD | {"id": "b", "prompt": [{"role": "user", "content": " "}]}, "p.jsonl:2: the prompt is empty"),
        # Neither None nor a list of parts may reach the model as its Python text.
        (GOOD | {"id": "b", "prompt": [{"role": "user", "content": None}]}, "p.jsonl:2: a prompt is text or messages"),
        (GOOD | {"id": "b", "prompt": [{"role": "user", "content": [{"type": "text", "text": "1+1=?"}]}]},
         "p.jsonl:2: a prompt is text or messages"),
        (GOOD | {"id": "b", "prompt": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "2"}]},
         "p.jsonl:2: the prompt ends with what the assistant says, '2': leave it out"),
        (GOOD, "p.jsonl:2: id 'a' is a duplicate of row 1"),
        ('{"id": "b", "prompt": ', "p.jsonl:2: not JSON"),
        ("[1, 2]", "p.jsonl:2: a row is a JSON object, this is list"),
        (GOOD | {"id": "b", "answer": []}, "p.jsonl:2: the answer is empty"),
        *((GOOD | {"id": "b", "prompt": each}, "p.jsonl:2: this is a list of messages as text") for each in
          ('[{"role": "user", "content": "?"}]', " [{'content': '?', 'role': 'user'}]\n")),
        (GOOD | {"id": "b", "prompt": "1+\ud83d=?"}, "p.jsonl:2: not JSON: 'utf-8' codec"),
        (GOOD | {"id": "b", "more": [{"a": "\udc00"}]}, "p.jsonl:2: not JSON: 'utf-8' codec"),
    ],
)  # fmt: skip
def test_a_bad_row_is_an_error_that_names_file_row_and_column(second: Any, said: str, tmp_path: Path) -> None:
    source = jsonl(tmp_path / "p.jsonl", [GOOD, second])
    assert said in refusal(source)
    (finding,) = check_rows(source, "train", DataConfig(train=source)).findings
    assert finding.row == 2
    assert said.removeprefix("p.jsonl:2: ") in finding.what


def test_the_digest_of_the_shipped_sets_is_the_one_their_runs_were_started_with() -> None:
    digests = {name: read(f"examples/tiny/checkpoints/math/{name}.jsonl").digest() for name in ("train", "heldout")}
    assert digests == {"train": "c385fd7b86a54886", "heldout": "7c2f27c6b0000d6f"}


def test_blank_lines_do_not_shift_the_rows_that_errors_name(tmp_path: Path) -> None:
    rows = ["", GOOD, "", GOOD | {"id": "b"}, "", GOOD]
    assert "p.jsonl:6: id 'a' is a duplicate of row 2" in refusal(jsonl(tmp_path / "p.jsonl", rows))


@pytest.mark.parametrize(("key", "setting"), [("prompt", "data.prompt_key"), ("answer", "data.answer_key")])
def test_a_missing_column_is_named_with_those_there_are_and_its_setting(key: str, setting: str, tmp_path: Path) -> None:
    row = {name: value for name, value in GOOD.items() if name != key} | {"other": "x"}
    said = refusal(jsonl(tmp_path / "p.jsonl", [row]))
    assert said.startswith(f"{tmp_path / 'p.jsonl'}: column {key!r} is missing (columns: ")
    assert "other" in said
    assert f"{setting}=…" in said


def test_a_tokenizer_without_a_chat_template_is_an_error_that_names_it(tmp_path: Path) -> None:
    source = jsonl(tmp_path / "p.jsonl", [GOOD])
    with pytest.raises(DataError, match=f"{MODEL}: the tokenizer has no chat template"):
        load_problems(source, "train", DataConfig(train=source), with_template(None))


def test_a_prompt_beyond_the_tokenizers_length_is_quiet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """transformers would warn of indexing errors; prompts that are too long are left out and counted."""
    source = jsonl(tmp_path / "long.jsonl", [GOOD | {"prompt": "1 + " * 40 + "1 ="}])
    short = copy.copy(tokenizer())
    short.model_max_length = 8
    load_problems(source, "train", DataConfig(train=source), short)
    assert "longer than" not in capfd.readouterr().err
