"""Responses as text: special tokens are left out, but not the tags that are read in them."""

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AddedToken, PreTrainedTokenizerBase

from ares.engines import Request, SamplingSettings, opened_texts, response_texts
from ares.engines.stop_strings import StopStrings
from ares.workers.services import EngineService
from tests.ares.builders import tokenizer

SAID = '<think>Perhaps 5.</think> No.<tool_call>{"name": "add"}</tool_call>'
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<file_sep>")


def with_tags(special: bool) -> PreTrainedTokenizerBase:
    own = copy.deepcopy(tokenizer())
    for tag in TAGS:
        own._tokenizer.add_special_tokens([AddedToken(tag)]) if special else own.add_tokens([tag])
    return own


@pytest.mark.parametrize("special", [False, True])
def test_tags_of_thoughts_and_calls_are_text_although_they_are_special_tokens(special: bool) -> None:
    """Calls vanished, and thoughts became part of the answer."""
    own = with_tags(special)
    ids = own(f"{SAID}<file_sep><|im_end|>", add_special_tokens=False)["input_ids"]
    assert set(map(own.convert_tokens_to_ids, TAGS)) <= set(ids)
    expected = SAID if special else f"{SAID}<file_sep>"
    answer: Any = SimpleNamespace(token_ids=np.array(ids), log_probs=[], finish_reason="stop", canvas=None)
    engine = SimpleNamespace(stream=lambda *_: [[(0, answer)]])
    service: Any = SimpleNamespace(tokenizer=own, engine=engine, config=None)
    [rows] = EngineService.generate(service, [], SamplingSettings(1.0, 1.0, 9))
    assert rows["response"].tolist() == response_texts(own, [ids]) == [expected]
    stops = StopStrings(own, [Request([], 0, stops=("</tool_call>",))])
    reached = [stops.reached(torch.tensor([0]), torch.tensor([ids]), place, torch.tensor([True])).item()
               for place in range(len(ids))]  # fmt: skip
    assert reached.index(True) == ids.index(own.convert_tokens_to_ids("</tool_call>"))


def test_a_response_is_read_after_the_tag_that_its_prompt_ends_with() -> None:
    prompts = ["What?<think>\n", "<think>What?", ""]
    ids = [tokenizer()(each, add_special_tokens=False)["input_ids"] for each in prompts]
    assert opened_texts(tokenizer(), ids, "abc") == ["<think>a", "b", "c"]
