"""A frozen reference in bfloat16 agrees with the policy in bfloat16, also far from the start.

It once did not: rotary buffers were rounded with the weights, so that angles were wrong.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ares.models.causal import LanguageModel
from ares.models.masked_diffusion import MaskedLanguageModel
from tests.ares import masked_builders
from tests.ares.models.families import CAUSAL, CPU, build, random_rows, settings, widen
from tests.ares.vision_builders import model as vision_model

ROWS = {"prompts": [200], "responses": [[1800, 1000]]}
FAR = 1000
"""From this position on, rounded frequencies are off by a large part of a turn."""


def buffers(model: Any) -> dict[str, tuple[torch.dtype, Tensor]]:
    return {name: (buffer.dtype, buffer.clone()) for name, buffer in model.named_buffers()}


def test_freezing_casts_parameters_and_leaves_buffers(tmp_path: Path) -> None:
    folder = build(CAUSAL["Llama"], tmp_path)
    causal = LanguageModel.load(settings(folder, dtype="bfloat16"), CPU)
    masked = MaskedLanguageModel.load(masked_builders.settings(dtype="bfloat16"), CPU)
    for loaded in (causal, masked, vision_model(dtype="bfloat16")):
        before = buffers(loaded.model)
        assert before
        frozen: Any = loaded.frozen()
        assert {parameter.dtype for parameter in frozen.model.parameters()} == {torch.bfloat16}
        assert not any(parameter.requires_grad for parameter in frozen.model.parameters())
        for name, (dtype, buffer) in buffers(frozen.model).items():
            assert (dtype, name) == (before[name][0], name)
            torch.testing.assert_close(buffer, before[name][1], rtol=0, atol=0)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_a_causal_reference_in_bfloat16_is_the_policy_at_far_positions(checkpointing: bool, tmp_path: Path) -> None:
    folder = build(CAUSAL["Llama"], tmp_path)
    batch = random_rows(**ROWS)
    load = {"dtype": "bfloat16", "gradient_checkpointing": checkpointing}
    policy = LanguageModel.load(settings(folder, **load), CPU)
    reference = LanguageModel.load(settings(folder, **load), CPU).frozen()
    with torch.no_grad():
        own = policy.token_log_probs(batch, 1.0).log_probs
        theirs = reference.token_log_probs(batch, 1.0).log_probs
    position = torch.arange(batch["responses"].shape[1]) + 200
    far = (position >= FAR).expand(2, -1)[batch["response_mask"].bool()]
    assert float((own - theirs)[far].abs().mean()) < 0.06  # rounding alone; with rounded frequencies .2


def test_a_masked_reference_in_bfloat16_is_the_policy_at_far_positions() -> None:
    places = 1200
    loaded = []
    for _ in range(2):
        model = masked_builders.settings(dtype="bfloat16")
        loaded.append(MaskedLanguageModel.load(model, CPU))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            widen(loaded[-1].model)
    generator = torch.Generator().manual_seed(0)
    batch = random_rows([20], [[places]])
    batch["canvas"] = torch.randint(3, 60, (1, places), generator=generator)
    batch["mask_seeds"] = torch.tensor([7])
    with torch.no_grad():
        own = loaded[0].token_log_probs(batch, 1.0).log_probs
        theirs = loaded[1].frozen().token_log_probs(batch, 1.0).log_probs
    assert float((own - theirs)[1000:].abs().mean()) < 0.1


def test_a_vision_reference_in_bfloat16_is_the_policy_at_far_positions() -> None:
    models = [vision_model(dtype="bfloat16"), vision_model(dtype="bfloat16")]
    for loaded in models:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            widen(loaded.model)
    vocabulary = models[0].head.weight.shape[0]
    batch = random_rows([200], [[1200]])
    for name in ("prompts", "responses"):
        batch[name] = batch[name] % min(vocabulary, 60) + 20
    passed: Any = {name: batch[name] for name in batch.keys()}  # noqa: SIM118 - a TensorDict iterates over its rows
    from ares.models.vision_language import Pictures

    passed["pictures"] = Pictures([], [[]])
    with torch.no_grad():
        own = models[0].token_log_probs(passed, 1.0).log_probs
        theirs = models[1].frozen().token_log_probs(passed, 1.0).log_probs
    assert float((own - theirs)[FAR - 200 :].abs().mean()) < 0.1
