"""The reference engine for vision-language models: the transformers engine with images and videos in its prompts.

Covered: images and videos in any prompt of a batch, beside prompts of text. Each is read and encoded once per call
however many samples share it, and so is its prompt.
"""

from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForImageTextToText, PreTrainedTokenizerBase

from ares.config import Config, DataConfig
from ares.data import MediaReader
from ares.engines.engine import Request, device_of, end_token_ids, padding_id
from ares.engines.transformers import TransformersEngine
from ares.models import Pictures, VisionInputs, never_sampled


class VisionEngine(TransformersEngine):
    """Samples responses to prompts with images or videos. `data` says how they are read."""

    kind = AutoModelForImageTextToText

    def __init__(
        self, model_path: str, dtype: str, device: str, end_ids: set[int], pad_id: int, data: DataConfig,
        tokenizer: PreTrainedTokenizerBase | None = None,
    ) -> None:  # fmt: skip
        super().__init__(model_path, dtype, device, end_ids, pad_id, tokenizer)
        self.reader = MediaReader(model_path, data)
        self.inputs = VisionInputs(self.model, self.reader.fps)
        self.never = never_sampled(self.model.config, self.device)

    @classmethod
    def create(cls, settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> "VisionEngine":
        """rollout.engine=transformers, for vision-language models."""
        model, end_ids, pad_id = config.model, end_token_ids(config.model.location, tokenizer), padding_id(tokenizer)
        return cls(model.location, model.dtype, device_of(config), end_ids, pad_id, config.data, tokenizer)

    def prompt_inputs(self, requests: list[Request], ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """Prompts embedded with their images [B, P, H], and positions in time, height and width [3, B, P]."""
        pictures = Pictures.read(self.reader, [list(request.media) for request in requests])
        positions = torch.zeros(3, *ids.shape, dtype=torch.long, device=self.device)
        for row, seen in enumerate(mask.bool()):
            positions[:, row, seen] = self.inputs.positions(ids[row, seen], pictures, row)
        embedded = self.inputs.embed(ids, pictures, list(range(len(ids))))
        return {"inputs_embeds": embedded, "position_ids": positions}


def reference_engine(settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> TransformersEngine:
    """rollout.engine=transformers."""
    kind = VisionEngine if config.model.family == "vision_language" else TransformersEngine
    return kind.create(settings, config, tokenizer)
