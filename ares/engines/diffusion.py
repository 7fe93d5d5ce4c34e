"""The engine of masked-diffusion LMs (Dream, DiffuCoder): a canvas of mask tokens after each prompt, denoised stepwise.

Covered: batches of left-padded prompts, keyed draws (a row's are its own), token entropies from the step that unmasked
each token. Not covered: a model's own generation, caches between steps; stop strings, since a canvas is not known
before its last step.
"""

from collections.abc import Iterator
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from algorithms.denoising import FinishedCanvas, completion_mask, denoise
from algorithms.settings import DenoisingSettings
from ares.config import Config, DiffusionConfig, ModelConfig
from ares.engines.engine import Completion, ModelEngine, Request, SamplingSettings, device_of, end_token_ids
from ares.models import empty_model, mask_token_id


class DiffusionEngine(ModelEngine):
    """Samples responses by denoising on one device."""

    def __init__(
        self, model: ModelConfig, how: DiffusionConfig, device: str, end_ids: set[int], pad_id: int | None
    ) -> None:
        """pad_id: None where the tokenizer has no padding token."""
        self.model = empty_model(model, device)
        self.mask_id = mask_token_id(self.model.config, model.path)
        self.how = how
        self.device = torch.device(device)
        # Text has no padding: models fill the rest of a canvas with it when they are done.
        ends = end_ids if pad_id is None else end_ids | {pad_id}
        self.end_ids = torch.tensor(sorted(ends), dtype=torch.long, device=self.device)
        self.pad_id = pad_id or 0

    @classmethod
    def create(cls, settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> "DiffusionEngine":
        """rollout.engine=diffusion."""
        end_ids = end_token_ids(config.model.location, tokenizer)
        return cls(config.model, config.rollout.diffusion, device_of(config), end_ids, tokenizer.pad_token_id)

    @torch.no_grad()
    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample; yields a batch after its last step."""
        assert self.version is not None, "no weights were loaded"
        denoising = DenoisingSettings(
            steps=settings.denoising_steps or self.how.steps,
            temperature=settings.temperature,
            top_p=settings.top_p,
            **self.how.model_dump(include={"alg", "alg_temp", "threshold", "block"}),
        )
        for start in range(0, len(requests), self.how.batch):
            batch = requests[start : start + self.how.batch]
            prompts, seen = self.padded([request.prompt_token_ids for request in batch])
            seeds = torch.tensor([request.seed for request in batch], device=self.device)
            canvas = denoise(self.model, prompts, seen, seeds, settings.max_tokens, denoising, self.mask_id)
            yield [(start + row, completion) for row, completion in enumerate(self._completions(canvas))]

    def _completions(self, answered: FinishedCanvas) -> Iterator[Completion]:
        ends = torch.isin(answered.tokens, self.end_ids)
        stopped, lengths = ends.any(1), completion_mask(ends).sum(1)
        tokens = answered.tokens.to("cpu", torch.int32).numpy()
        log_probs, entropies = answered.log_probs.cpu().numpy(), answered.entropies.cpu().numpy()
        for row, (length, stop) in enumerate(zip(lengths.tolist(), stopped.tolist(), strict=True)):
            yield Completion(
                tokens[row, :length],
                log_probs[row, :length],
                "stop" if stop else "length",
                entropies=entropies[row, :length],
                canvas=tokens[row],
                passes=int(answered.passes[row]),
            )
