"""Decoding rows that share prompts against transformers' own generate and one pass over whole rows."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from ares.engines.engine import Completion, Request, SamplingSettings
from ares.engines.transformers import TransformersEngine
from ares.models.weights import stored_tensors
from tests.ares.models.families import CAUSAL, VOCABULARY, build

FAMILIES = ["Qwen2", "Llama", "Phi", "GLM-4-MoE", "Gemma 3", "Qwen2 with a window"]
ROWS = [0, 1, 0, 2, 1, 1, 0]
"""The prompt of each request."""
LENGTHS = [64, 3, 104]


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
    asked = requests([73] * 3)
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
