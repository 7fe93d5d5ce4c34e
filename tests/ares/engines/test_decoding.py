"""Decoding with grouped heads and shared prompts against transformers' own generate and one pass over whole rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import ares.engines.decode_attention as decode_attention
from ares.engines.decoding import LONG_PROMPT, Decoding
from ares.engines.engine import Completion, Request, SamplingSettings
from ares.engines.transformers import TransformersEngine
from ares.models.weights import stored_tensors
from tests.ares.models.families import CAUSAL, VOCABULARY, build

FAMILIES = ["Qwen2", "Llama", "Phi", "GLM-4-MoE", "Gemma 3", "Qwen2 with a window"]
ROWS = [0, 1, 0, 2, 1, 1, 0]
"""The prompt of each request."""
LENGTHS = [LONG_PROMPT, 3, LONG_PROMPT + 40]


@pytest.fixture(scope="module", params=FAMILIES)
def engine(request: Any, tmp_path_factory: pytest.TempPathFactory) -> TransformersEngine:
    return loaded(str(build(CAUSAL[request.param], tmp_path_factory.mktemp("model"))))


def loaded(folder: str, dtype: str = "float32") -> TransformersEngine:
    made = TransformersEngine(folder, dtype, "cpu", {1}, 0)
    weights = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
    made.load_weights(0, {name: weights[name] for name in stored_tensors(made.model)})
    return made


def requests(lengths: list[int] = LENGTHS) -> list[Request]:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, VOCABULARY, length).tolist() for length in lengths]
    return [Request(prompts[prompt], seed) for seed, prompt in enumerate(ROWS)]


def naive(engine: TransformersEngine, request: Request, answer: Completion) -> torch.Tensor:
    """Logits [T, V] of an answer's tokens from one pass over the row, by itself and without a cache."""
    ids = torch.tensor([request.prompt_token_ids + answer.token_ids.tolist()])
    with torch.no_grad():
        return engine.model(input_ids=ids).logits[0, len(request.prompt_token_ids) - 1 : -1]


def test_greedy_answers_are_those_of_transformers_generate(engine: TransformersEngine) -> None:
    asked = requests([LONG_PROMPT + 9] * 3)
    found = engine.generate(asked, SamplingSettings(0.0, 1.0, 12))
    ids = torch.tensor([request.prompt_token_ids for request in asked])
    with torch.no_grad():
        expected = engine.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, eos_token_id=1, pad_token_id=0
        )
    for answer, row in zip(found, expected[:, ids.shape[1] :], strict=True):
        assert answer.token_ids.tolist() == row[: len(answer.token_ids)].tolist()


def test_rows_of_a_long_prompt_get_the_log_probs_of_a_pass_over_the_whole_row(engine: TransformersEngine) -> None:
    """Prompts of different lengths are padded; rows leave the batch, for one prompt all of them."""
    asked = requests()
    answers = engine.generate(asked, SamplingSettings(2.0, 1.0, 60))
    for request, answer in zip(asked, answers, strict=True):
        expected = torch.log_softmax(naive(engine, request, answer) / 2.0, -1)
        chosen = expected.gather(-1, torch.from_numpy(answer.token_ids).long()[:, None])[:, 0]
        np.testing.assert_allclose(answer.log_probs, chosen.numpy(), atol=1e-4)


def test_a_call_gives_the_same_bits_again_and_each_request_its_tokens_alone(engine: TransformersEngine) -> None:
    asked, settings = requests(), SamplingSettings(2.0, 1.0, 30)
    first, again = engine.generate(asked, settings), engine.generate(asked, settings)
    for one, other in zip(first, again, strict=True):
        assert np.array_equal(one.token_ids, other.token_ids)
        assert np.array_equal(one.log_probs, other.log_probs)
    alone = [engine.generate([request], settings)[0].token_ids.tolist() for request in asked]
    assert [answer.token_ids.tolist() for answer in first] == alone


@pytest.fixture
def decodings(monkeypatch: pytest.MonkeyPatch) -> list[Decoding]:
    """Every batch that is decoded."""
    made: list[Decoding] = []
    begin = Decoding.__init__

    def noted(decoding: Decoding, *arguments: Any) -> None:
        begin(decoding, *arguments)
        made.append(decoding)

    monkeypatch.setattr(Decoding, "__init__", noted)
    return made


def test_a_long_prompt_is_held_once_and_a_short_one_with_each_row(tmp_path: Path, decodings: list[Decoding]) -> None:
    """So that results with short prompts, as in most recorded runs, stay bit-identical."""
    engine = loaded(str(build(CAUSAL["Qwen2"], tmp_path)))
    engine.generate(requests(), SamplingSettings(1.0, 1.0, 3))
    shared = decodings[-1].shared
    assert shared is not None
    assert [keys.shape[0] for keys, _ in shared.layers] == [3, 3]
    assert decodings[-1].cache.get_seq_length() == 2
    engine.generate(requests([LONG_PROMPT - 1, 3, 4]), SamplingSettings(1.0, 1.0, 3))
    assert decodings[-1].shared is None
    engine.generate(requests()[1:4:2], SamplingSettings(1.0, 1.0, 3))  # a row of each: there is nothing to share
    assert decodings[-1].shared is None


def test_a_model_that_takes_no_notice_of_shared_prompts_reads_its_own(
    tmp_path: Path, decodings: list[Decoding], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a model would whose layers do not pass on unknown arguments."""
    attend = decode_attention.decode_attention

    def ignorant(*arguments: Any, shared_prompts: Any = None, **how: Any) -> Any:
        return attend(*arguments, **how)

    monkeypatch.setitem(decode_attention.ALL_ATTENTION_FUNCTIONS._global_mapping, decode_attention.NAME, ignorant)
    engine = loaded(str(build(CAUSAL["Qwen2"], tmp_path)))
    asked = requests()
    for request, answer in zip(asked, engine.generate(asked, SamplingSettings(0.0, 1.0, 8)), strict=True):
        assert naive(engine, request, answer).argmax(-1).tolist() == answer.token_ids.tolist()
    assert decodings[-1].shared is None


def test_in_bfloat16_prompts_are_shared_too(tmp_path: Path, decodings: list[Decoding]) -> None:
    engine = loaded(str(build(CAUSAL["Qwen2"], tmp_path)), "bfloat16")
    asked = requests()
    answers = engine.generate(asked, SamplingSettings(1.0, 1.0, 20))
    assert decodings[-1].shared is not None
    for request, answer in zip(asked, answers, strict=True):
        expected = torch.log_softmax(naive(engine, request, answer).float(), -1)
        chosen = expected.gather(-1, torch.from_numpy(answer.token_ids).long()[:, None])[:, 0]
        assert float((torch.from_numpy(answer.log_probs) - chosen).abs().mean()) < 0.05


def test_the_trial_may_begin_with_the_last_token_of_the_vocabulary(
    tmp_path: Path, decodings: list[Decoding], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Decoding.read

    def favours_the_last(self: Decoding, *arguments: Any) -> torch.Tensor:
        logits = read(self, *arguments)
        logits[:, -1] = logits.max() + 1.0
        return logits

    monkeypatch.setattr(Decoding, "read", favours_the_last)
    loaded(str(build(CAUSAL["Qwen2"], tmp_path))).generate(requests(), SamplingSettings(1.0, 1.0, 2))
    assert decodings[-1].shared is not None
