"""Freezing a model casts its weights alone: rounded rotary buffers once made wrong angles far from the start.

That policy and reference agree there is tested with each family (test_families.py, test_masked_diffusion.py,
test_vision_language.py).
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ares.models.causal import LanguageModel
from ares.models.masked_diffusion import MaskedLanguageModel
from tests.ares import masked_builders
from tests.ares.models.families import CAUSAL, CPU, build, settings
from tests.ares.vision_builders import model as vision_model


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
