"""The denoising engine: keyed draws, canvases without masks, entropies and log-probs of the right steps."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from ares.config.rollout import DiffusionConfig
from ares.engines.diffusion import DiffusionEngine
from ares.engines.engine import SamplingSettings
from ares.models.masked_diffusion import MaskedLanguageModel
from tests.ares.engines.test_transformers_engine import same
from tests.ares.masked_builders import config, remote_directory, requests, settings, tokenizer

PLACES = 10
SETTINGS = SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=PLACES)


def engine(folder: Path | None = None, **how: object) -> DiffusionEngine:
    model = settings(folder)
    words = tokenizer()
    sampler = DiffusionEngine(
        model, DiffusionConfig(**{"steps": 6} | how), "cpu", {words.eos_token_id}, words.pad_token_id
    )
    weights = MaskedLanguageModel.load(model, torch.device("cpu")).model.named_parameters()
    sampler.load_weights(3, dict(weights))
    return sampler


def test_without_a_padding_token_no_token_of_text_ends_a_response() -> None:
    """Prompts are padded with token 0 then, which is a character in many vocabularies."""
    words = copy.deepcopy(tokenizer())
    words.pad_token = None
    assert words.pad_token_id is None
    assert DiffusionEngine.create(None, config("reward.kind=math"), words).end_ids.tolist() == [words.eos_token_id]


def test_two_equal_calls_are_bit_identical_and_the_global_generator_is_left_alone() -> None:
    sampler = engine()
    state = torch.get_rng_state()
    first = sampler.generate(requests(8), SETTINGS)
    sampler.generate(requests(3, seed=9), SETTINGS)
    assert same(first, sampler.generate(requests(8), SETTINGS))
    assert torch.equal(torch.get_rng_state(), state)
    assert same(first, engine().generate(requests(8), SETTINGS))
    assert not same(first, sampler.generate(requests(8, seed=1), SETTINGS))


def test_a_request_gets_the_same_tokens_whatever_else_is_in_the_call() -> None:
    # By confidence, places that are nearly equally sure may change their order with a logit's last bit.
    sampler = engine(alg="origin")
    every = requests(7)
    together = [answer.canvas.tolist() for answer in sampler.generate(every, SETTINGS)]
    assert [sampler.generate([each], SETTINGS)[0].canvas.tolist() for each in every] == together
    small = engine(alg="origin", batch=2)
    assert [answer.canvas.tolist() for answer in small.generate(every, SETTINGS)] == together
    assert [[index for index, _ in some] for some in small.stream(every, SETTINGS)] == [[0, 1], [2, 3], [4, 5], [6]]


@pytest.mark.parametrize("how", [{}, {"alg": "origin"}, {"alg": "maskgit_plus", "alg_temp": 0.5}, {"steps": 30}])
def test_no_mask_is_left_and_the_end_ends(how: dict) -> None:
    words = tokenizer()
    for answer in engine(**how).generate(requests(30), SETTINGS):
        assert len(answer.canvas) == PLACES
        assert words.mask_token_id not in answer.canvas
        assert answer.token_ids.tolist() == answer.canvas[: len(answer.token_ids)].tolist()
        assert len(answer.log_probs) == len(answer.entropies) == len(answer.token_ids)
        ends = np.isin(answer.canvas, [words.eos_token_id, words.pad_token_id])
        assert answer.finish_reason == ("stop" if ends.any() else "length")
        assert len(answer.token_ids) == (ends.argmax() + 1 if ends.any() else PLACES)


def test_in_one_step_log_probs_and_entropies_are_those_of_the_masked_canvas() -> None:
    sampler = engine(steps=1)
    request = requests(1)[0]
    answer = sampler.generate([request], SETTINGS)[0]
    ids = torch.tensor([request.prompt_token_ids + [tokenizer().mask_token_id] * PLACES])
    with torch.no_grad():
        known = torch.log_softmax(sampler.model(ids).logits[0, -PLACES - 1 : -1], -1)
    length = len(answer.token_ids)
    expected = known[torch.arange(length), torch.tensor(answer.token_ids).long()]
    np.testing.assert_allclose(answer.log_probs, expected, atol=1e-5)
    np.testing.assert_allclose(answer.entropies, -(known.exp() * known).sum(-1)[:length], atol=1e-5)


def test_a_call_may_ask_for_other_passes_than_the_engine_was_made_with() -> None:
    few = SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=PLACES, denoising_steps=2)
    answers = engine(steps=6).generate(requests(6), few)
    assert same(answers, engine(steps=2).generate(requests(6), SETTINGS))
    assert not same(answers, engine(steps=6).generate(requests(6), SETTINGS))


def test_a_threshold_takes_fewer_passes_and_counts_those_of_each_row() -> None:
    assert {answer.passes for answer in engine(steps=5).generate(requests(6), SETTINGS)} == {5}
    sampler = engine(steps=PLACES, threshold=0.002, alg="origin")
    fast = sampler.generate(requests(6), SETTINGS)
    assert all(answer.passes < PLACES for answer in fast)
    alone = [sampler.generate([each], SETTINGS)[0] for each in requests(6)]
    assert [(each.canvas.tolist(), each.passes) for each in alone] == [(e.canvas.tolist(), e.passes) for e in fast]


def test_temperature_zero_takes_the_most_probable_tokens_whatever_the_key() -> None:
    greedy = SamplingSettings(temperature=0.0, top_p=1.0, max_tokens=PLACES)
    sampler = engine()
    one, other = (sampler.generate(requests(3, seed), greedy) for seed in (0, 1))
    assert [a.canvas.tolist() for a in one] == [b.canvas.tolist() for b in other]


def test_a_model_of_remote_code_is_denoised_by_the_engine() -> None:
    sampler = engine(remote_directory())
    for answer in sampler.generate(requests(6), SETTINGS):
        assert tokenizer().mask_token_id not in answer.canvas
        assert (answer.log_probs < 0).all()
        assert (answer.entropies > 0).all()
