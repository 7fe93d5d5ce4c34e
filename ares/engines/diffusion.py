"""The engine of masked-diffusion LMs (Dream, DiffuCoder): a canvas of mask tokens after each prompt, denoised stepwise.

Covered: batches of left-padded prompts, keyed draws, token entropies from the step that unmasked each token; a model's
own `diffusion_generate` where it has one. A row's draws are its own; a model's own generation draws from torch's
generator, which is seeded from the rows' keys and restored afterwards. Not covered: caches between steps; stop strings,
since a canvas is not known before its last step.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from algorithms.denoising import (
    DenoisingSettings,
    FinishedCanvas,
    completion_mask,
    denoise_completions,
    distribution_at,
)
from algorithms.keyed_sampling import keyed_uniform
from algorithms.keys import derive_seed
from ares.config import Config, DiffusionConfig, ModelConfig
from ares.engines.engine import Completion, Request, SamplingSettings, end_token_ids
from ares.engines.model_engine import ModelEngine, device_of
from ares.models import empty_model

PURPOSES = {"token": 0, "place": 1}


class DiffusionEngine(ModelEngine):
    """Samples responses by denoising on one device."""

    def __init__(
        self, model: ModelConfig, how: DiffusionConfig, device: str, end_ids: set[int], pad_id: int | None
    ) -> None:
        """pad_id: None where the tokenizer has no padding token."""
        self.model, self.mask_id = empty_model(model, torch.device(device))
        self.how = how
        self.device = torch.device(device)
        # Text has no padding: models fill the rest of a canvas with it when they are done.
        ends = end_ids if pad_id is None else end_ids | {pad_id}
        self.end_ids = torch.tensor(sorted(ends), dtype=torch.long, device=self.device)
        self.pad_id = pad_id or 0
        self.version: int | None = None

    @classmethod
    def create(cls, settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> "DiffusionEngine":
        """rollout.engine=diffusion."""
        end_ids = end_token_ids(config.model.location, tokenizer)
        return cls(config.model, config.rollout.diffusion, device_of(config), end_ids, tokenizer.pad_token_id)

    @torch.no_grad()
    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample; yields a batch after its last step."""
        assert self.version is not None, "no weights were loaded"
        steps = settings.denoising_steps or self.how.steps
        denoising = DenoisingSettings(steps, settings.temperature, settings.top_p, self.how.alg, self.how.alg_temp)
        for start in range(0, len(requests), self.how.batch):
            batch = requests[start : start + self.how.batch]
            prompts, seen = self.padded([request.prompt_token_ids for request in batch])
            seeds = torch.tensor([request.seed for request in batch], device=self.device)
            if hasattr(self.model, "diffusion_generate"):
                canvas = self._own_generation(prompts, seen, seeds, denoising, settings.max_tokens)
            else:
                canvas = self._denoise(prompts, seen, seeds, denoising, settings.max_tokens)
            yield [(start + row, completion) for row, completion in enumerate(self._completions(canvas))]

    def _denoise(
        self, prompts: Tensor, seen: Tensor, seeds: Tensor, settings: DenoisingSettings, places: int
    ) -> FinishedCanvas:
        place = torch.arange(places, device=self.device)

        def uniform(purpose: str, step: int) -> Tensor:
            return keyed_uniform(seeds[:, None], (2 * step + PURPOSES[purpose]) * places + place)

        return denoise_completions(self.model, prompts, seen, places, settings, self.mask_id, uniform)

    def _own_generation(
        self, prompts: Tensor, seen: Tensor, seeds: Tensor, settings: DenoisingSettings, places: int
    ) -> FinishedCanvas:
        """The model's own generation; its hooks record the distribution that each token was drawn from."""
        record = _Record(len(prompts), places, self.mask_id, settings.temperature, self.device)
        model: Any = self.model
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(derive_seed("diffusion_generate", *seeds.tolist()))
            sequences = model.diffusion_generate(
                prompts,
                attention_mask=seen,
                max_new_tokens=places,
                output_history=False,
                return_dict_in_generate=True,
                steps=settings.steps,
                temperature=settings.temperature,
                top_p=settings.top_p,
                alg=settings.alg,
                alg_temp=settings.alg_temp or None,
                generation_logits_hook_func=record.before,
                generation_tokens_hook_func=record.after,
            ).sequences
        if not record.called:
            raise RuntimeError(
                f"{type(model).__name__}.diffusion_generate calls no generation_logits_hook_func: "
                "the log-probs and entropies of its tokens cannot be known"
            )
        return FinishedCanvas(sequences[:, -places:], record.log_probs, record.entropies, record.uncovered_at)

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
            )


class _Record:
    """Hooks of a model's own generation: tokens that are masked before a step and not after it were drawn in it."""

    def __init__(self, rows: int, places: int, mask_id: int, temperature: float, device: torch.device) -> None:
        self.log_probs = torch.zeros(rows, places, device=device)
        self.entropies = torch.zeros_like(self.log_probs)
        self.uncovered_at = torch.zeros(rows, places, dtype=torch.long, device=device)
        self.called = False
        self._places, self._mask_id, self._temperature = places, mask_id, temperature
        self._masked, self._logits = torch.empty(0), torch.empty(0)

    def before(self, step: int | None, canvas: Tensor, logits: Tensor) -> Tensor:
        """logits: [B, N, V], already shifted to the places they predict."""
        self.called = True
        self._masked = canvas[:, -self._places :] == self._mask_id
        self._logits = logits[:, -self._places :]
        return logits

    def after(self, step: int | None, canvas: Tensor, logits: Tensor | None) -> Tensor:
        """canvas: [B, N] after the step."""
        if step is None or not self.called:  # Dream calls it once before the first step
            return canvas
        tokens = canvas[:, -self._places :]
        drawn = self._masked & (tokens != self._mask_id)
        if drawn.any():
            measured = distribution_at(self._logits[drawn], tokens[drawn], self._temperature)
            self.log_probs[drawn], self.entropies[drawn] = measured
            self.uncovered_at[drawn] = step
        return canvas
