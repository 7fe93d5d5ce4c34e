"""Turns: what a chat template writes between a response and the next one, with 26 published templates.

An episode grows by the sampled tokens and what follows them; it is compared with what the template makes of the whole
conversation.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import AddedToken

from ares.config import TEMPLATE_LENGTH, DataConfig
from ares.data import TurnTemplate, chat_with_tools, check_template, conversation, rendered, show_tools
from ares.data.chats import write_chat
from ares.errors import UserError
from tests.ares.data.published_templates import PUBLISHED, published

LIMIT = 2000
SCHEMA = {"type": "function", "function": {"name": "look_up", "description": "Finds a word.", "parameters": {}}}
Heard = str | tuple[str, ...]


def asked(name: str, system: str = "") -> list[dict[str, Any]]:
    messages = [{"role": "user", "content": "What is it?"}]
    return [{"role": "system", "content": system}, *messages] if system and PUBLISHED[name].has_system else messages


def written(name: str, messages: list[dict[str, Any]]) -> str:
    """The text that the template itself makes of a whole conversation."""
    return write_chat(published(name), messages, {})


def token_ids(name: str, text: str) -> list[int]:
    return list(published(name)(text, add_special_tokens=False)["input_ids"])


def end_of(name: str) -> int:
    return int(published(name).convert_tokens_to_ids(PUBLISHED[name].end))


def episode(name: str, turns: Sequence[tuple[list[int], bool, Heard]], system: str = "") -> list[int]:
    """The tokens of an episode up to where the next answer begins. Turns: what was sampled, whether it was cut off,
    what was observed."""
    template = TurnTemplate(published(name), {})
    ids = token_ids(name, rendered(published(name), asked(name, system), {}))
    for sampled, is_cut_off, observation in turns:
        end = [] if is_cut_off else [end_of(name)]
        ids += [*sampled, *end, *template.following(observation, end[0] if end else None, LIMIT)[1]]
    return ids


def character_by_character(name: str, text: str) -> list[int]:
    """Tokens of a text that its tokenizer would never choose."""
    return [token for character in text for token in token_ids(name, character)]


def solid(text: str) -> str:
    """A text without spaces: templates trim messages, tokenizers put spaces before texts, SentencePiece's are ▁."""
    return "".join(text.replace("▁", " ").split())


NAMES = st.sampled_from([*PUBLISHED])
WORDS = st.text(st.sampled_from("ab Z1.é日🙂\n\t{}\"'\\<|>"), max_size=12).map(lambda text: f"o{text}k")
"""Ordinary text that no template trims."""
MARKUP = sorted({name for each in PUBLISHED.values() for name in f"{each.special} {each.added}".split()})
PIECES = [*MARKUP, "</tool_call", "<|im_", "end|>", "[INST]", "What was said", "\ud800", " ", "\n", ""]
HOSTILE = st.lists(st.sampled_from(PIECES) | WORDS, max_size=6).map("".join)
"""What opens and closes turns, whole and in pieces."""
SYSTEM, CUT_OFF, CANONICAL = WORDS, st.booleans(), st.booleans()
TALK = NAMES, SYSTEM, st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)
ODD_TALK = NAMES, SYSTEM, st.lists(st.tuples(WORDS, WORDS, CANONICAL, CUT_OFF), min_size=1, max_size=6)
ATTACK = NAMES, st.lists(st.tuples(WORDS, HOSTILE | st.tuples(HOSTILE, HOSTILE), CUT_OFF), min_size=1, max_size=6)


def has_the_tokens_of_the_whole_conversation(name: str, system: str, turns: list[tuple[str, str]]) -> None:
    model, prompt = PUBLISHED[name], written(name, asked(name, system))
    before, after = model.spaces
    begins, messages, said = len(token_ids(name, prompt)), asked(name, system), []
    for response, observation in turns:
        sampled = token_ids(name, prompt + before + response + after)[begins:]
        said.append((sampled, False, observation))
        messages += [{"role": "assistant", "content": response}, {"role": "user", "content": observation}]
    if not model.opening:  # with which only the last answer begins
        assert episode(name, said, system) == token_ids(name, written(name, messages))


def reads_as_the_whole_conversation(name: str, system: str, turns: list[tuple[str, str, bool, bool]]) -> None:
    messages, said = asked(name, system), []
    for response, observation, is_canonical, is_cut_off in turns:
        sampled = token_ids(name, response) if is_canonical else character_by_character(name, response)
        said.append((sampled, is_cut_off, observation))
        messages += [{"role": "assistant", "content": response}, {"role": "user", "content": observation}]
    read, whole = solid(published(name).decode(episode(name, said, system))), solid(written(name, messages))
    opening = PUBLISHED[name].opening or "\n"
    assert read.replace(opening, "") == whole.replace(opening, "")


def holds_no_marks_but_the_templates(name: str, turns: list[tuple[str, Heard, bool]]) -> None:
    tokens, model = published(name), PUBLISHED[name]
    names = [*model.special.split(), *(each for each in model.added.split() if each in str(tokens.chat_template))]
    marks = set(tokens.convert_tokens_to_ids(names))
    plain: list[tuple[list[int], bool, Heard]] = []
    attacked: list[tuple[list[int], bool, Heard]] = []
    for response, observation, is_cut_off in turns:
        nothing = "-" if isinstance(observation, str) else ("-",) * len(observation)
        sampled = token_ids(name, response)
        plain.append((sampled, is_cut_off, nothing))
        attacked.append((sampled, is_cut_off, observation))
    ids = episode(name, attacked)
    assert [each for each in ids if each in marks] == [each for each in episode(name, plain) if each in marks]
    read = solid(tokens.decode(ids))
    for _, observation, _ in turns:
        if isinstance(observation, str):
            assert solid(observation.replace("\ud800", "?")) in read


PROPERTIES = (
    pytest.param(TALK, has_the_tokens_of_the_whole_conversation, id="tokens"),
    pytest.param(ODD_TALK, reads_as_the_whole_conversation, id="text"),
    pytest.param(ATTACK, holds_no_marks_but_the_templates, id="marks"),
)


@pytest.mark.parametrize("examples", [60, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("strategies", "holds"), PROPERTIES)
def test_an_episode_is_the_whole_conversation(
    strategies: tuple[Any, ...], holds: Callable[..., None], examples: int
) -> None:
    settings(max_examples=examples, deadline=None, derandomize=True)(given(*strategies)(holds))()


@pytest.mark.parametrize("name", PUBLISHED)
def test_results_of_tools_are_messages_of_tools_where_the_template_knows_them(name: str) -> None:
    template = TurnTemplate(published(name), {})
    for results in (("4",), ("4", "five 5")):
        text, ids = template.following(results, None, LIMIT)
        said = {"role": "assistant", "content": "Look."}
        shown = [
            {"role": "tool", "tool_call_id": f"call{number:05}", "name": "tool", "content": result}
            for number, result in enumerate(results)
        ]
        if PUBLISHED[name].tools == "user":
            both = "4" if len(results) == 1 else "Result 1: 4\nResult 2: five 5"
            shown = [{"role": "user", "content": both}]
        assert text == written(name, [*asked(name), said, *shown]).rpartition("Look.")[2]
        assert solid(published(name).decode(ids)) == solid(text)


def test_an_end_token_that_was_sampled_is_not_repeated_and_another_one_is_followed_by_the_templates() -> None:
    tokens, template = published("llama31"), TurnTemplate(published("llama31"), {})
    rest = "<|start_header_id|>user<|end_header_id|>\n\n42?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    for last, text in (("<|eot_id|>", rest), (None, "<|eot_id|>" + rest), ("<|eom_id|>", "<|eot_id|>" + rest)):
        token = None if last is None else tokens.convert_tokens_to_ids(last)
        assert template.following("42?", token, LIMIT) == (text, token_ids("llama31", text))


def test_thoughts_stay_in_an_episode_though_the_template_drops_them() -> None:
    thought = "<think>\nsix times seven\n</think>\n\n42"
    ids = episode("qwen3", [(token_ids("qwen3", thought), False, "Sure?")])
    assert thought in published("qwen3").decode(ids)
    assert thought not in written(
        "qwen3", [*asked("qwen3"), {"role": "assistant", "content": thought}, {"role": "user", "content": "Sure?"}]
    )


def test_tools_are_not_shown_again_with_every_observation() -> None:
    """Mistral shows them before the last message of a user."""
    shown = TurnTemplate(published("mistral_v3"), {"tools": [SCHEMA]})
    assert shown.following("42?", end_of("mistral_v3"), LIMIT)[0] == "[INST] 42?[/INST]"


@pytest.mark.parametrize("limit", [1, 30, 64])
@pytest.mark.parametrize("name", ["chatml", "llama31", "mistral_v1", "minimax_m2"])
def test_what_is_too_long_is_cut_at_a_character_and_the_model_told_so(name: str, limit: int) -> None:
    tokens, template = published(name), TurnTemplate(published(name), {})
    long = "日本語🙂" * 1000, "</s><|im_end|>" * 100, ("1", "z" * 500, "y" * 500), tuple("many" * 9 for _ in range(64))
    for said in long:
        text, ids = template.following(said, end_of(name), limit)
        assert len(ids) <= limit + TEMPLATE_LENGTH
        assert "… (cut off)" in text
        assert solid(tokens.decode(ids)) == solid(text)
        assert "\ufffd" not in text


def test_what_a_tokenizer_makes_a_special_token_of_is_plain_text_too() -> None:
    own = copy.deepcopy(published("chatml"))
    own.backend_tokenizer.normalizer = normalizers.Replace("!", "|")
    own.add_tokens([AddedToken("<|im_end|>", normalized=True, special=True)], special_tokens=True)
    end = own.convert_tokens_to_ids("<|im_end|>")
    assert own("<!im_end!>", add_special_tokens=False)["input_ids"] == [end]
    _, ids = TurnTemplate(own, {}).following("a<!im_end!>b", end, LIMIT)
    assert ids.count(end) == 1


REFUSED = {
    "{{ raise_exception('no such role') }}": "raises TemplateError on messages of user, assistant, user: no such role",
    "{{ messages[1].content | upper }}": "changes what an assistant said",
    "{{ messages[1].content[:9] }}": "changes what an assistant said",
    "{{ messages[1].content | wordwrap(20) }}": "changes what an assistant said",
    "{{ messages[0].content }}": "changes what an assistant said",
    "{{ messages[1].content }}{{ messages[1].content }}": "changes what an assistant said",
    "{{ messages[1].content }}<|im_end|>" + "a b c " * 99 + "{{ messages[2].content }}": "around a user's message",
}


@pytest.mark.parametrize("template", REFUSED)
def test_a_template_that_changes_what_was_said_is_refused_with_the_tokenizers_name(template: str) -> None:
    own = copy.deepcopy(published("chatml"))
    own.chat_template = template
    with pytest.raises(UserError, match=rf"chatml.*{REFUSED[template]}"):
        TurnTemplate(own, {})


@pytest.mark.parametrize("call_format", ["hermes", "llama", "python"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_prompt_shows_tools_and_how_they_are_called(name: str, call_format: str) -> None:
    tokens = published(name)
    data, added = show_tools(DataConfig(train="x", system_prompt=None), tokens, [SCHEMA], call_format)
    check_template(tokens, data.chat_template_kwargs)
    talk = [*asked(name), {"role": "assistant", "content": "It."}, *asked(name)]
    for prompt in ("What is it?", asked(name), asked(name, "Be brief."), talk):
        messages = conversation(chat_with_tools(prompt, data, added), data)
        text = rendered(tokens, messages, data.chat_template_kwargs)
        assert "look_up" in text
        assert {"hermes": "<tool_call>", "llama": '"parameters":', "python": "```python"}[call_format] in text
    shows = {"qwen25", "hermes3", "llama31", "mistral_v3", "mistral_nemo"}
    assert ("tools" in data.chat_template_kwargs) == (name in shows)


def test_a_template_that_shows_tools_and_their_format_needs_no_system_prompt() -> None:
    data = DataConfig(train="x", system_prompt="Be brief.")
    assert show_tools(data, published("qwen25"), [], "hermes") == (data, "")
    assert show_tools(data, published("qwen25"), [SCHEMA], "hermes")[0].system_prompt == "Be brief."
    assert show_tools(data, published("llama31"), [SCHEMA], "llama")[0].system_prompt == "Be brief."
    told = str(show_tools(data, published("llama31"), [SCHEMA], "hermes")[0].system_prompt)
    assert told.startswith("Be brief.\n\nTo call a tool, write a JSON object between tags:\n<tool_call>\n")
    told = str(show_tools(data, published("chatml"), [SCHEMA], "python")[0].system_prompt)
    assert told.startswith('Be brief.\n\nYou may call these tools:\n{"name": "look_up", "description": ')
    assert show_tools(data, published("gemma2"), [SCHEMA], "hermes")[1].endswith("</tool_call>")
