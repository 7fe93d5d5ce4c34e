import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache

import ares.engines.transformers as transformers_engine
from ares.config import ModelConfig
from ares.engines.engine import Completion, Request, SamplingSettings, end_token_ids, view_as_tensors
from ares.engines.stop_strings import until_stop
from ares.engines.transformers import TransformersEngine
from ares.models import ModelError
from ares.models.transformers_internals import ROOM, GrowingLayer
from tests.ares.builders import END, MODEL, PAD, engine, requests, tokenizer

SETTINGS = SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=24)


@pytest.fixture(scope="module")
def reference() -> TransformersEngine:
    return engine()


def same(one: list[Completion], other: list[Completion]) -> bool:
    """Equal to the last bit."""
    columns = "token_ids", "log_probs", "finish_reason", "entropies", "canvas"
    pairs = list(zip(one, other, strict=True))
    return all(np.array_equal(getattr(a, column), getattr(b, column)) for a, b in pairs for column in columns)


def tokens(completions: list[Completion]) -> list[list[int]]:
    return [completion.token_ids.tolist() for completion in completions]


def naive_log_probs(reference: TransformersEngine, request: Request, answer: Completion, t: float) -> np.ndarray:
    """One forward pass over the whole sequence, without cache, padding or other rows."""
    ids = torch.tensor([request.prompt_token_ids + answer.token_ids.tolist()])
    with torch.no_grad():
        logits = reference.model(input_ids=ids).logits[0, len(request.prompt_token_ids) - 1 : -1]
    found = torch.log_softmax(logits / t, -1)
    return found.gather(-1, torch.tensor(answer.token_ids, dtype=torch.long)[:, None])[:, 0].numpy()


def test_two_equal_calls_are_bit_identical_whatever_was_generated_between(reference: TransformersEngine) -> None:
    before = torch.random.get_rng_state()
    first = reference.generate(requests(8), SETTINGS)
    reference.generate(requests(3, seed=9), SETTINGS)
    assert same(first, reference.generate(requests(8), SETTINGS))
    assert torch.equal(before, torch.random.get_rng_state())  # the global generator
    assert same(first, engine().generate(requests(8), SETTINGS))


def test_the_cache_gives_transformers_own_bits(reference: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reference.generate(requests(24), SETTINGS)
    assert len({len(answer.token_ids) for answer in found}) > 4  # rows leave the batch, which the cache takes part in
    made: list[DynamicCache] = []
    monkeypatch.setattr(
        transformers_engine, "growing_cache", lambda config: made.append(DynamicCache(config=config)) or made[-1]
    )
    assert same(found, reference.generate(requests(24), SETTINGS))
    assert len(made) == 1


def test_a_request_gets_the_same_tokens_whatever_else_is_in_the_call(reference: TransformersEngine) -> None:
    every = requests(12)
    together = tokens(reference.generate(every, SETTINGS))
    assert tokens([reference.generate([request], SETTINGS)[0] for request in every]) == together
    assert tokens(reference.generate(every[::-1], SETTINGS))[::-1] == together


def test_a_prompt_of_requests_is_read_once(reference: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    forward = reference.model.forward

    def counting(**inputs: Any) -> Any:
        rows.append(len(inputs["input_ids"]))
        return forward(**inputs)

    monkeypatch.setattr(reference.model, "forward", counting)
    every = [Request(request.prompt_token_ids, seed) for request in requests(3) for seed in range(4)]
    found = reference.generate(every, SETTINGS)
    assert rows[:2] == [3, 12]
    monkeypatch.setattr(reference.model, "forward", forward)
    assert tokens([reference.generate([request], SETTINGS)[0] for request in every]) == tokens(found)


def test_requests_with_other_seeds_get_other_tokens(reference: TransformersEngine) -> None:
    prompt = requests(1)[0].prompt_token_ids
    hot = SamplingSettings(temperature=3.0, top_p=1.0, max_tokens=24)
    answers = tokens(reference.generate([Request(prompt, seed) for seed in range(20)], hot))
    assert len({tuple(answer) for answer in answers}) == 20


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 1.0), (1.3, 0.9)])
def test_log_probs_are_those_of_a_full_pass(reference: TransformersEngine, temperature: float, top_p: float) -> None:
    asked = requests(12)
    answers = reference.generate(asked, SamplingSettings(temperature, top_p, 24))
    assert len({len(answer.token_ids) for answer in answers}) > 1  # rows left the batch at different times
    for request, answer in zip(asked, answers, strict=True):
        np.testing.assert_allclose(
            answer.log_probs, naive_log_probs(reference, request, answer, temperature), atol=1e-4
        )


def test_a_response_ends_at_its_first_end_token_or_at_the_limit(reference: TransformersEngine) -> None:
    answers = reference.generate(requests(40), SETTINGS)
    assert {answer.finish_reason for answer in answers} == {"stop", "length"}
    for answer in answers:
        found = answer.token_ids.tolist()
        if answer.finish_reason == "stop":
            assert found.index(END) == len(found) - 1
        else:
            assert END not in found
            assert len(found) == SETTINGS.max_tokens
        assert len(answer.log_probs) == len(found)


def test_an_end_token_at_the_last_place_is_a_stop_and_not_a_truncation(reference: TransformersEngine) -> None:
    whole = next(a for a in reference.generate(requests(40), SETTINGS) if a.finish_reason == "stop")
    length = len(whole.token_ids)
    exact = reference.generate(requests(40), SamplingSettings(1.0, 1.0, length))
    short = reference.generate(requests(40), SamplingSettings(1.0, 1.0, length - 1))
    place = tokens(exact).index(whole.token_ids.tolist())
    assert exact[place].finish_reason == "stop"
    assert short[place].finish_reason == "length"
    assert short[place].token_ids.tolist() == whole.token_ids.tolist()[:-1]


def test_every_end_token_ends_a_response(reference: TransformersEngine) -> None:
    whole = tokens(reference.generate(requests(12), SETTINGS))
    middle = whole[0][2]
    several = TransformersEngine(ModelConfig(path=str(MODEL)), "cpu", {END, middle}, PAD)
    several.load_weights(0, dict(reference.model.named_parameters()))
    for answer, before in zip(several.generate(requests(12), SETTINGS), whole, strict=True):
        ends = [place for place, token in enumerate(before) if token in (END, middle)]
        expected = before[: ends[0] + 1] if ends else before
        assert answer.token_ids.tolist() == expected
        assert answer.finish_reason == ("stop" if ends else "length")


def test_a_response_ends_with_the_token_that_completes_a_stop_string(reference: TransformersEngine) -> None:
    """Up to the stop string the tokens are those without stop strings: cut there, the texts are equal."""
    settings = SamplingSettings(1.0, 1.0, 40)
    asked = requests(40)
    whole = reference.generate(asked, settings)
    texts = tokenizer().batch_decode([answer.token_ids.tolist() for answer in whole], skip_special_tokens=True)
    stops = ("oxed{1", "2", "never said")
    found = reference.generate([replace(request, stops=stops) for request in asked], settings)
    ended = 0
    for answer, before, text in zip(found, whole, texts, strict=True):
        length = len(answer.token_ids)
        assert answer.token_ids.tolist() == before.token_ids[:length].tolist()
        np.testing.assert_allclose(answer.log_probs, before.log_probs[:length], atol=1e-5)
        seen, without_last = (
            tokenizer().decode(ids.tolist(), skip_special_tokens=True)
            for ids in (answer.token_ids, answer.token_ids[:-1])
        )
        assert until_stop(seen, stops) == until_stop(text, stops)
        if any(stop in text for stop in stops):
            ended += 1
            assert any(stop in seen for stop in stops)
            assert not any(stop in without_last for stop in stops)
            assert answer.finish_reason == "stop"
        else:
            assert (length, answer.finish_reason) == (len(before.token_ids), before.finish_reason)
    assert 5 < ended < 40


def test_code_that_is_trusted_is_run_and_other_code_is_not(tmp_path: Path) -> None:
    (tmp_path / "tuned.py").write_text(
        "from transformers import Qwen2Config, Qwen2ForCausalLM\n"
        "class TunedConfig(Qwen2Config):\n    model_type = 'tuned'\n"
        "class Tuned(Qwen2ForCausalLM):\n    config_class = TunedConfig\n"
    )
    described = json.loads((MODEL / "config.json").read_text()) | {"model_type": "tuned", "architectures": ["Tuned"]}
    described["auto_map"] = {"AutoConfig": "tuned.TunedConfig", "AutoModelForCausalLM": "tuned.Tuned"}
    (tmp_path / "config.json").write_text(json.dumps(described))
    made = TransformersEngine(ModelConfig(path=str(tmp_path), trust_remote_code=True), "cpu", {END}, PAD)
    assert type(made.model).__name__ == "Tuned"
    with pytest.raises(ModelError, match=r"if you trust them, set model.trust_remote_code=true"):
        TransformersEngine(ModelConfig(path=str(tmp_path)), "cpu", {END}, PAD)


def test_stop_strings_are_a_requests_own(reference: TransformersEngine) -> None:
    """Two samples of one prompt, one of which stops."""
    (request,) = requests(1)
    (alone,) = tokens(reference.generate([request], SETTINGS))
    stop = tokenizer().decode(alone[:5])[-1]
    whole, stopped = tokens(reference.generate([request, replace(request, stops=(stop,))], SETTINGS))
    assert stopped == whole[: len(stopped)] != whole


def begun(request: Request, answer: Completion, tokens: int) -> Request:
    """The request to continue a response after its first tokens."""
    own = answer.token_ids[:tokens].tolist()
    return replace(request, prompt_token_ids=[*request.prompt_token_ids, *own], begun=tokens)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (1.3, 0.9), (0.0, 1.0)])
def test_an_interrupted_response_goes_on_alike(reference: TransformersEngine, temperature: float, top_p: float) -> None:
    """Beside others that begin. The log-probs differ by rounding: earlier tokens are read in one pass."""
    asked, settings = requests(24), SamplingSettings(temperature, top_p, 24)
    whole = reference.generate(asked, settings)
    for place in (1, 2, 7, 16):
        cut_off = [index for index, answer in enumerate(whole) if len(answer.token_ids) > place]
        going = [begun(asked[index], whole[index], place) for index in cut_off]
        found = reference.generate([*going, *asked[:5]], replace(settings, max_tokens=24 - place))
        assert len(cut_off) > 2
        for index, rest in zip(cut_off, found, strict=False):
            assert rest.token_ids.tolist() == whole[index].token_ids[place:].tolist()
            np.testing.assert_allclose(rest.log_probs, whole[index].log_probs[place:], atol=1e-4)
            assert rest.finish_reason == whole[index].finish_reason


def test_new_weights_change_the_answers_and_the_version() -> None:
    other = engine()
    before = other.generate(requests(4), SETTINGS)
    weights = {name: tensor.clone() for name, tensor in other.model.named_parameters()}
    other.load_weights(1, {name: tensor * 1.1 for name, tensor in weights.items()})
    assert other.version == 1
    assert not same(before, other.generate(requests(4), SETTINGS))
    other.load_weights(2, weights)
    assert same(before, other.generate(requests(4), SETTINGS))


@pytest.mark.parametrize("wrong", ["missing", "unknown", "shape", "broadcastable"])
def test_weights_that_do_not_fit_are_an_error_that_names_one_and_change_nothing(wrong: str) -> None:
    other = engine()
    before = other.generate(requests(2), SETTINGS)
    weights = {name: tensor * 2 for name, tensor in other.model.named_parameters()}
    name = "model.norm.weight"
    if wrong == "missing":
        del weights[name]
    elif wrong == "unknown":
        weights["model.norm.bias"] = weights[name]
        name = "model.norm.bias"
    else:
        weights[name] = weights[name][: 1 if wrong == "broadcastable" else 3]
    with pytest.raises(ValueError, match=name):
        other.load_weights(1, weights)
    assert other.version == 0
    assert same(before, other.generate(requests(2), SETTINGS))


@pytest.mark.parametrize(
    ("generation", "written", "expected"),
    [
        ({"eos_token_id": None}, {"model_type": "qwen2"}, {END}),
        ({"eos_token_id": 7}, {"model_type": "qwen2"}, {END, 7}),
        ({"eos_token_id": [1, 7, 8]}, {"model_type": "qwen2"}, {END, 7, 8}),
        ({"eos_token_id": [7]}, {"model_type": "llama", "eos_token_id": 9}, {END, 7}),
        ({}, {"model_type": "llama", "eos_token_id": 7}, {END, 7}),
        (None, {"model_type": "llama"}, {END}),  # LlamaConfig's own end token, 2, is an ordinary one here
        (None, {"model_type": "llama", "eos_token_id": None}, {END}),
        (None, {"model_type": "llama", "eos_token_id": [7, 8]}, {END, 7, 8}),
        (None, {"model_type": "qwen2_vl", "text_config": {"eos_token_id": [7, 8]}}, {END, 7, 8}),
        (None, {"model_type": "qwen2_vl", "eos_token_id": None, "text_config": {"eos_token_id": 7}}, {END, 7}),
        (None, {"model_type": "llama", "eos_token_id": 7, "text_config": None}, {END, 7}),
    ],
)
def test_end_tokens_are_the_tokenizers_and_those_of_the_first_file_that_names_some(
    generation: dict[str, Any] | None, written: dict[str, Any], expected: set[int], tmp_path: Path
) -> None:
    """generation_config.json (None: there is none), else config.json."""
    (tmp_path / "config.json").write_text(json.dumps(written))
    if generation is not None:
        (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    assert end_token_ids(str(tmp_path), tokenizer()) == expected


@pytest.mark.filterwarnings("error")
def test_arrays_of_weights_are_taken_without_a_copy() -> None:
    """Ray's are read-only; copied, they took as much memory again as the weights."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    array.flags.writeable = False
    assert view_as_tensors({"array": array})["array"].data_ptr() == array.ctypes.data


def test_a_cache_has_room_for_some_tokens_and_not_for_half_as_many_again() -> None:
    layer = GrowingLayer()
    for tokens in (300, 1, 1):
        layer.update(torch.zeros(2, 1, tokens, 4), torch.zeros(2, 1, tokens, 4))
    assert layer.keys is not None
    assert layer.keys.shape == (2, 1, 302, 4)
    assert layer.keys.untyped_storage().nbytes() <= 2 * (302 + ROOM) * 4 * 4
