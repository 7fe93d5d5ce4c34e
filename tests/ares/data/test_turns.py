"""Turns: what a chat template writes between a response and the next one, with 26 published templates.

An episode's prompt is the one before, the sampled tokens and what follows them. So it grows by prefix whatever was
sampled; these tests compare it with what the template itself makes of the whole conversation.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase

from ares.data import TurnTemplate, rendered
from tests.ares.data.published_templates import PUBLISHED, published

LIMIT = 400
EXAMPLES = 6
NAMES = st.sampled_from([*PUBLISHED])
SCHEMA = {"type": "function", "function": {"name": "look_up", "description": "Finds a word.", "parameters": {}}}

WORDS = st.text(st.sampled_from("ab Z1.é日🙂\n\t{}\"'\\<|>"), max_size=12).map(lambda text: f"o{text}k")
"""Ordinary text that no template trims."""
MARKUP = sorted({name for each in PUBLISHED.values() for name in f"{each.special} {each.added}".split()})
HOSTILE = st.lists(
    st.sampled_from([*MARKUP, "<|ares:cut|>", "</tool_call", "<|im_", "end|>", "[INST]", "\ud800", " ", "\n"]) | WORDS,
    max_size=6,
).map("".join)
"""What opens and closes turns, whole and in pieces, among other text."""


def episode(
    name: str, said: Sequence[tuple[list[int], int | None]], heard: Sequence[str | tuple[str, ...]], system: str = ""
) -> list[int]:
    """The tokens of an episode up to where the next answer begins. said: tokens of each response, its last one if it
    ended by itself."""
    tokens = published(name)
    template = TurnTemplate(tokens, {})
    ids = tokens(rendered(tokens, asked(name, system), {}), add_special_tokens=False)["input_ids"]
    for (sampled, last), observation in zip(said, heard, strict=True):
        ids = [*ids, *sampled, *template.following(observation, last, LIMIT)[1]]
    return ids


def asked(name: str, system: str = "") -> list[dict[str, Any]]:
    messages = [{"role": "user", "content": "What is it?"}]
    return [{"role": "system", "content": system}, *messages] if system and PUBLISHED[name].has_system else messages


def end_of(name: str) -> int:
    return int(published(name).convert_tokens_to_ids(PUBLISHED[name].end))


def byte_by_byte(tokens: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Tokens of a text as nobody would choose them: one for each character."""
    return [token for each in text for token in tokens("o" + each, add_special_tokens=False)["input_ids"][-1:]]


def solid(text: str) -> str:
    """A text without spaces, of which templates and tokenizers add and drop some."""
    return "".join(text.split())


@settings(max_examples=EXAMPLES * 4, deadline=None, derandomize=True)
@given(NAMES, st.lists(st.tuples(WORDS, WORDS, st.booleans(), st.booleans()), min_size=1, max_size=6), WORDS)
def test_an_episode_reads_as_the_template_writes_the_whole_conversation(
    name: str, turns: list[tuple[str, str, bool, bool]], system: str
) -> None:
    """However a response was sampled and ended. Left aside: spaces, and with what only the last answer begins."""
    tokens, model, end = published(name), PUBLISHED[name], end_of(name)
    messages, said = asked(name, system), []
    for response, observation, is_canonical, is_cut_off in turns:
        sampled = (
            tokens(response, add_special_tokens=False)["input_ids"] if is_canonical else byte_by_byte(tokens, response)
        )
        text = tokens.decode(sampled)
        said.append((sampled, None) if is_cut_off else ([*sampled, end], end))
        messages += [{"role": "assistant", "content": text.strip()}, {"role": "user", "content": observation}]
    ids = episode(name, said, [observation for _, observation, *_ in turns], system)
    whole = solid(tokens.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    read = solid(tokens.decode(ids))
    if model.opening:
        read, whole = (text.replace(model.opening, "") for text in (read, whole))
    assert read == whole
