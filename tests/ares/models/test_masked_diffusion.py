"""Coupled log-probs and gradients against the published form, keyed masks, remote code, refusals."""

import copy
import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from algorithms.coupled_sampling import MASK_ESTIMATES, random_mask, version_masks
from algorithms.denoising import completion_logits
from algorithms.keyed_sampling import keyed_uniform
from algorithms.protocol import DataProto
from algorithms.published.coupled_grpo import selective_log_softmax
from ares.models.causal import ModelError
from ares.models.masked_diffusion import MaskedLanguageModel, mask_seeds
from tests.ares.builders import rows, to_batch
from tests.ares.masked_builders import model_directory, remote_directory, settings, tokenizer
from tests.ares.models.families import random_rows, widen

CPU = torch.device("cpu")
PLACES = 9


def load(folder: Path | None = None, **others: object) -> MaskedLanguageModel:
    return MaskedLanguageModel.load(settings(folder, **others), CPU)


def names(rows: int) -> list[tuple[int, int]]:
    """Slot and sample of rows."""
    return [divmod(row, 2) for row in range(rows)]


def batch(groups: int = 2, samples: int = 3, seeds: torch.Tensor | None = None) -> DataProto:
    """Rows with prompts and responses of different lengths, and whole canvases."""
    table = rows([[0.0] * samples] * groups)
    generator = torch.Generator().manual_seed(0)
    canvases = []
    for tokens in table["token_ids"]:
        rest = torch.randint(3, 300, (PLACES - len(tokens),), generator=generator)
        canvases.append([*tokens.tolist(), *rest.tolist()])
    table = table.assign(canvas=canvases, token_entropies=table["log_probs"].map(lambda values: -values))
    built = to_batch(table, tokenizer().pad_token_id)
    seeds = mask_seeds(0, 1, names(len(built)), 1)[:, 0] if seeds is None else seeds
    return built.union(DataProto.from_dict({"mask_seeds": seeds}))


def plain(policy: MaskedLanguageModel, prepared: DataProto, temperature: float = 1.0) -> torch.Tensor:
    """Log-probs [N] through logits and selective_log_softmax, one unpadded row at a time."""
    parts = []
    places = prepared.tensor("canvas").shape[1]
    ratios, masks = random_mask(prepared.tensor("mask_seeds"), places, 0)
    for row in range(len(prepared)):
        width = prepared.tensor("prompts").shape[1]
        prompt = prepared.tensor("prompts")[row][prepared.tensor("attention_mask")[row, :width].bool()]
        ids = torch.cat([prompt, prepared.tensor("canvas")[row]])[None]
        prompt_index = torch.arange(ids.shape[1]) < len(prompt)
        mask = torch.nn.functional.pad(masks[row : row + 1], (len(prompt), 0))
        versions = torch.cat([ids.masked_fill(each & ~prompt_index, policy.mask_id) for each in version_masks(mask)])
        logits = completion_logits(policy.model, versions, places) / temperature
        ratio = float(ratios[row])
        weights = torch.tensor([1.0, 1 / ratio, 1 / (1 - ratio)])
        known = selective_log_softmax(logits, ids[:, -places:], weights, mask[:, -places:])[0]
        parts.append(known[: int(prepared.tensor("response_mask")[row].sum())])
    return torch.cat(parts)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_and_gradients_are_those_of_the_published_form_row_by_row(temperature: float) -> None:
    policy, rows = load(), batch()
    both = policy.token_log_probs(rows.batch, temperature).log_probs, plain(policy, rows, temperature)
    torch.testing.assert_close(*both, atol=1e-4, rtol=1e-4)
    weights = list(policy.model.parameters())
    grads = [torch.autograd.grad((values * torch.arange(len(values))).mean(), weights) for values in both]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", MASK_ESTIMATES)
def test_an_estimate_is_the_weighted_sum_of_its_passes_row_by_row(name: str) -> None:
    """In float64, one unpadded row at a time; d1's also hides .15 of the prompt's tokens."""
    policy, rows = load(mask_estimate=name), batch(seeds=mask_seeds(0, 3, names(6), 1)[:, 0])
    masks, weights, ratio = policy.masked_passes(partial(random_mask, rows.tensor("mask_seeds"), PLACES))
    exact, expected, hidden = copy.deepcopy(policy.model).double(), [], 0
    for row in range(len(rows)):
        width = rows.tensor("prompts").shape[1]
        prompt = rows.tensor("prompts")[row][rows.tensor("attention_mask")[row, :width].bool()].clone()
        for place in range(len(prompt)):
            if keyed_uniform(rows.tensor("mask_seeds")[row], place - len(prompt)) < ratio:
                prompt[place] = policy.mask_id
                hidden += 1
        canvas = rows.tensor("canvas")[row].expand(len(masks), -1)
        ids = torch.cat([prompt.expand(len(masks), -1), canvas.masked_fill(masks[:, row], policy.mask_id)], 1)
        known = completion_logits(exact, ids, PLACES).log_softmax(-1).gather(-1, canvas[..., None])[..., 0]
        summed = (known * weights[:, row]).sum(0)
        expected.append(summed[: int(rows.tensor("response_mask")[row].sum())].float())
    log_probs = policy.token_log_probs(rows.batch, 1.0).log_probs
    torch.testing.assert_close(log_probs, torch.cat(expected), atol=1e-5, rtol=1e-5)
    assert (hidden > 0) == (name == "masked_prompt")
    assert (
        policy.row_sizes(rows).tokens.sum() == policy.passes * load(mask_estimate="full").row_sizes(rows).tokens.sum()
    )


def long_rows() -> DataProto:
    """Canvases of 1,500 places with responses and prompts of different lengths."""
    tensors: dict[str, torch.Tensor] = dict(random_rows([20, 300], [[900, 200], [1500]]).items())
    generator = torch.Generator().manual_seed(1)
    for name in ("prompts", "responses"):
        tensors[name] = tensors[name] % 60 + 3
    canvas = torch.randint(3, 60, tensors["responses"].shape, generator=generator)
    tensors["canvas"] = torch.where(tensors["response_mask"].bool(), tensors["responses"], canvas)
    return DataProto.from_dict(tensors | {"mask_seeds": torch.tensor([7, 8, 9])})


def widened(**settings: object) -> MaskedLanguageModel:
    policy = load(**settings)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        widen(policy.model)
    return policy


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
def test_long_rows_have_the_log_probs_and_gradients_of_the_published_form(checkpointing: bool) -> None:
    policy, rows = widened(gradient_checkpointing=checkpointing), long_rows()
    log_probs, expected = policy.token_log_probs(rows.batch, 1.0).log_probs, plain(policy, rows)
    torch.testing.assert_close(log_probs, expected, atol=1e-3, rtol=1e-3)
    grads = [torch.autograd.grad(values.mean(), list(policy.model.parameters())) for values in (log_probs, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-3 * float(other.abs().max()) + 1e-8, rtol=1e-2)


@pytest.mark.slow
@torch.no_grad()
def test_long_rows_in_bfloat16_are_the_model_but_for_rounding() -> None:
    policy, rows = widened(dtype="bfloat16"), long_rows()
    expected = plain(widened(), rows)
    for model in (policy, policy.frozen()):
        difference = (model.token_log_probs(rows.batch, 1.0).log_probs - expected).abs()
        assert float(difference.mean()) < 0.2  # two versions are weighed, by up to their inverse ratios


def test_a_model_whose_decoder_cannot_be_told_from_its_head_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers gives the model itself for remote code such as LLaDA's."""
    monkeypatch.setattr(type(load().model), "get_decoder", lambda self: self)
    with pytest.raises(ModelError, match=r"MaskedModel.get_decoder\(\) does not tell decoder and output head apart"):
        load()


def test_masks_follow_from_run_step_iteration_slot_and_sample_alone() -> None:
    """They followed from the place in the batch: a step's first rows and those drawn after them had the same masks."""
    four = names(4)
    seeds = mask_seeds(5, 3, four, 2)
    assert torch.equal(seeds[2:], mask_seeds(5, 3, four[2:], 2))
    assert torch.equal(seeds[:, :1], mask_seeds(5, 3, four, 1))
    others = torch.stack([seeds, mask_seeds(6, 3, four, 2), mask_seeds(5, 4, four, 2)])
    assert len(set(others.flatten().tolist())) == 24
    ratio, mask = random_mask(mask_seeds(0, 0, names(4000), 1)[:, 0], 20, 0)
    assert float(ratio.min()) >= 0.2
    assert float(ratio.max()) <= 0.8
    assert float(ratio.mean()) == pytest.approx(0.5, abs=0.01)
    assert float((mask.double() - ratio).mean()) == pytest.approx(0.0, abs=0.01)


def test_a_directory_with_its_own_code_gives_the_same_log_probs() -> None:
    rows = batch()
    own, remote = load(), load(remote_directory())
    assert type(remote.model).__name__ == "RemoteModel"
    torch.testing.assert_close(
        own.token_log_probs(rows.batch, 1.0).log_probs, remote.token_log_probs(rows.batch, 1.0).log_probs
    )


def test_code_in_a_directory_is_not_run_without_leave() -> None:
    with pytest.raises(ModelError, match=r"set model\.trust_remote_code=true"):
        load(remote_directory(), trust_remote_code=False)


def changed(tmp_path: Path, **settings: object) -> Path:
    shutil.copytree(model_directory(), tmp_path / "model")
    file = tmp_path / "model" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    return tmp_path / "model"


def test_a_model_without_a_mask_token_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="names no mask_token_id"):
        load(changed(tmp_path, mask_token_id=None))


def test_a_causal_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"looks only backwards|does not tell decoder and output head apart"):
        load(changed(tmp_path, model_type="qwen2", auto_map={}, architectures=["Qwen2ForCausalLM"]))
