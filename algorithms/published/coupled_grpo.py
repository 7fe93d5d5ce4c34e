"""Coupled-GRPO (DiffuCoder, arXiv 2506.20639) with the interface of the published trainer.

Covered: `selective_log_softmax` (from the logits of all three passes) and `DiffuGRPOTrainer`, with forward_process
(masks from a seed, one ratio per call), _get_per_token_logps and _generate_and_score_completions as its users know
them, for one process with a transformers model and tokenizer. Masks, log-probs, denoising and advantages are those of
the training loop; draws come from keys, never from the global generator. Not covered: the update
(algorithms/losses.py: PPO without a dual clip, and KL by k3), devices, resuming (`ares train diffucoder`).
"""

from collections.abc import Callable, Sequence
from secrets import randbits
from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from algorithms.advantages import compute_rloo_outcome_advantage, widened
from algorithms.coupled_sampling import random_mask, version_masks
from algorithms.denoising import completion_logits, completion_mask, denoise
from algorithms.settings import DenoisingSettings


def selective_log_softmax(
    logits: Tensor, index: Tensor, weights: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """Coupled log-prob of each token, (l₁ + w₂·l₂ or w₃·l₃)/2, from the version that masked it (eq. 7 and §4.2).

    logits: [3·I·B, K, V], per iteration the B rows of v1, then of v2, then of v3; index: [I·B, K] tokens; weights:
    [3·I]; mask: [I·B, K], true where v2 masked. Without a mask the result is l₁; without weights, too, for one
    iteration. Returns [I·B, K] in float32 (float64 for float64 logits), made row by row. Raises ValueError.
    """
    iterations = 1 if weights is None else len(weights) // 3
    if logits.shape[:2] != (3 * len(index), index.shape[1]):
        raise ValueError(f"index {list(index.shape)} needs logits [3·rows, K, V]: got {list(logits.shape)}")
    tokens = index.view(iterations, 1, -1, index.shape[1]).expand(-1, 3, -1, -1)
    rows = zip(logits, tokens.flatten(0, 2), strict=True)

    def surprise(each: Tensor, ids: Tensor) -> Tensor:
        return cross_entropy(widened(each), ids, reduction="none")

    log_probs = -torch.stack([checkpoint(surprise, *row, use_reentrant=False) for row in rows])
    full, second, third = log_probs.view(tokens.shape).unbind(1)
    if mask is not None and weights is not None:
        _, of_second, of_third = weights.view(iterations, 3, 1, 1).to(full.dtype).unbind(1)
        full = (full + torch.where(mask.view_as(full).bool(), of_second * second, of_third * third)) / 2
    return full.flatten(0, 1)


class DiffuGRPOConfig(DenoisingSettings):
    """Settings of the published recipe, and of generation."""

    diffusion_steps: int = Field(256, ge=1)
    steps: None = None  # type: ignore[assignment]  # has the published name diffusion_steps
    num_generations: int = 10
    num_iterations: int = 2
    """Updates per generated batch, each with its own masks."""
    gradient_accumulation_steps: int = 1
    beta: float = 0.01
    scale_rewards: bool = False
    reward_weights: list[float] | None = None
    max_prompt_length: int | None = 200
    max_completion_length: int = 256
    generation_batch_size: int = 10
    random_masking: bool = True
    """Draw mask seeds for each batch; if false, 42 for every iteration."""
    seed: int = 0
    """Seeds the mask seeds and the draws of generation; the global generator is never touched."""


class DiffuGRPOTrainer:
    """Coupled-GRPO on a policy, a reference and reward functions. `metrics` are those of the last generated batch.

    Reward functions have TRL's signature: f(prompts=…, completions=…, **columns) returns None where it does not apply.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Callable[..., Any] | Sequence[Callable[..., Any]],
        args: DiffuGRPOConfig | None = None,
        processing_class: Any = None,
        ref_model: Any = None,
    ) -> None:
        self.model, self.ref_model, self.processing_class = model, ref_model, processing_class
        self.reward_funcs = list(reward_funcs) if isinstance(reward_funcs, Sequence) else [reward_funcs]
        self.names = [getattr(function, "__name__", type(function).__name__) for function in self.reward_funcs]
        self.args = args or DiffuGRPOConfig()
        self.generator = torch.Generator().manual_seed(self.args.seed)
        self.metrics: dict[str, float] = {}

    def forward_process(
        self, batch: Tensor, prompt_index: Tensor, mask_id: int, seed: int | None = None, accumulate: bool = False
    ) -> tuple[list[Tensor], list[float], Tensor]:
        """Three masked versions of a batch: all of the completion, a random part, and the rest of it (§4.2, "coupled").

        batch: [B, L] tokens; prompt_index: [L] true at the prompt. p ~ U(0.2, 0.8), one per call. `accumulate`: draw
        for one micro-batch of B / gradient_accumulation_steps rows and repeat, so that both have the same masks.
        Returns ([v1, v2, v3], [1, 1/p, 1/(1−p)], mask [B, L] of v2); seed None: a random draw.
        """
        parts = self.args.gradient_accumulation_steps if accumulate else 1
        key = torch.tensor([randbits(62) if seed is None else seed], device=batch.device)
        ratio, drawn = random_mask(key, batch.numel() // parts, 0)
        completion, share = ~prompt_index.bool(), float(ratio)
        mask = drawn.view(-1, batch.shape[1]).repeat(parts, 1) & completion
        versions = [batch.masked_fill(masked & completion, mask_id) for masked in version_masks(mask)]
        return versions, [1.0, 1 / share, 1 / (1 - share)], mask

    def _get_per_token_logps(
        self, model: Any, input_ids: Tensor, logits_to_keep: int, mask_seeds: Sequence[int], accumulate: bool = False
    ) -> Tensor:
        """Coupled log-probs of the last `logits_to_keep` tokens, one mask per iteration.

        input_ids: [I, B, L]; mask_seeds: I of them. `accumulate`: the B rows are several micro-batches that share a
        mask. Returns [B, I, K] float32. Padding before a prompt is not attended to. Raises ValueError.
        """
        if input_ids.ndim != 3 or len(mask_seeds) != len(input_ids):
            shape = tuple(input_ids.shape)
            raise ValueError(f"input_ids must be [iterations, B, L], got {shape} and {len(mask_seeds)} mask seeds")
        iterations, rows, length = input_ids.shape
        words = self.processing_class
        prompt_index = torch.arange(length, device=input_ids.device) < length - logits_to_keep
        drawn = [
            self.forward_process(ids, prompt_index, words.mask_token_id, seed=seed, accumulate=accumulate)
            for ids, seed in zip(input_ids, mask_seeds, strict=True)
        ]
        versions, weights, masks = zip(*drawn, strict=True)
        pad_id = getattr(words, "pad_token_id", None)
        seen = ~prompt_index | (input_ids != (-1 if pad_id is None else pad_id))
        seen = (seen.long().cumsum(-1) > 0).repeat_interleave(3, 0).flatten(0, 1)
        logits = completion_logits(model, torch.cat([ids for each in versions for ids in each]), logits_to_keep, seen)
        log_probs = selective_log_softmax(
            logits,
            input_ids[:, :, -logits_to_keep:].flatten(0, 1),
            torch.tensor(weights, device=logits.device).flatten(),
            torch.cat(masks)[:, -logits_to_keep:],
        )
        return log_probs.view(iterations, rows, logits_to_keep).transpose(0, 1).float()

    def _generate_and_score_completions(self, inputs: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Sample completions, score them and compute leave-one-out advantages.

        inputs: rows with `prompt` (text or chat messages) and the columns that reward functions take; the rows of one
        prompt are contiguous, num_generations of each. Returns prompt_ids, prompt_mask, completion_ids,
        completion_mask, old_per_token_logps [B, I, K] (None when I is 1), ref_per_token_logps (None when beta is 0),
        advantages [B] and mask_seeds [I].
        """
        args, size = self.args, self.args.generation_batch_size
        prompt_ids, prompt_mask = self._encode(inputs)
        batches = zip(prompt_ids.split(size), prompt_mask.split(size), strict=True)
        completions = torch.cat([self._generate(ids, mask) for ids, mask in batches])
        mask = completion_mask(completions == self.processing_class.eos_token_id)
        mask_seeds = [42] * args.num_iterations
        if args.random_masking:
            mask_seeds = torch.randint(2**31 - 1, (args.num_iterations,), generator=self.generator).tolist()
        repeated = torch.cat([prompt_ids, completions], 1).expand(args.num_iterations, -1, -1)
        whole = args.gradient_accumulation_steps > 1 and len(inputs) % args.gradient_accumulation_steps == 0
        measured = (repeated, completions.shape[1], mask_seeds, whole)
        with torch.no_grad():
            old = self._get_per_token_logps(self.model, *measured) if args.num_iterations > 1 else None
            ref = self._get_per_token_logps(self.ref_model, *measured) if args.beta else None
        return {
            "prompt_ids": prompt_ids,
            "prompt_mask": prompt_mask,
            "completion_ids": completions,
            "completion_mask": mask,
            "old_per_token_logps": old,
            "ref_per_token_logps": ref,
            "advantages": self._advantages(self._rewards(inputs, completions, mask), mask),
            "mask_seeds": mask_seeds,
        }

    def _encode(self, inputs: Sequence[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        """Prompts through the chat template, padded left, their last max_prompt_length tokens."""
        tokenizer, longest = self.processing_class, self.args.max_prompt_length or 0
        texts = [row["prompt"] for row in inputs]
        if not isinstance(texts[0], str):
            texts = tokenizer.apply_chat_template(texts, tokenize=False, add_generation_prompt=True)
        encoded = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        device = next(self.model.parameters()).device
        return encoded["input_ids"][:, -longest:].to(device), encoded["attention_mask"][:, -longest:].to(device)

    @torch.no_grad()
    def _generate(self, prompt_ids: Tensor, prompt_mask: Tensor) -> Tensor:
        """Completions [B, K] by Dream's denoising."""
        keep, mask_id = self.args.max_completion_length, self.processing_class.mask_token_id
        seeds = torch.randint(2**31 - 1, (len(prompt_ids),), generator=self.generator).to(prompt_ids.device)
        how = self.args.model_copy(update={"steps": self.args.diffusion_steps})
        return denoise(self.model, prompt_ids, prompt_mask, seeds, keep, how, mask_id).tokens

    def _rewards(self, inputs: Sequence[dict[str, Any]], completions: Tensor, mask: Tensor) -> Tensor:
        """[B, F], NaN where a function does not apply. Tokens after the end token are not part of the text."""
        kept = [row[: int(length)].tolist() for row, length in zip(completions, mask.sum(1), strict=True)]
        replies: list[Any] = self.processing_class.batch_decode(kept, skip_special_tokens=True)
        prompts = [row["prompt"] for row in inputs]
        if not isinstance(prompts[0], str):
            replies = [[{"role": "assistant", "content": text}] for text in replies]
        columns = {name: [row[name] for row in inputs] for name in inputs[0] if name not in ("prompt", "completion")}
        table = torch.full((len(inputs), len(self.reward_funcs)), torch.nan)
        for place, function in enumerate(self.reward_funcs):
            scores = function(prompts=prompts, completions=replies, **columns)
            scores = [torch.nan if score is None else float(score) for score in scores]
            table[:, place] = torch.tensor(scores).view(len(inputs))
        return table

    def _advantages(self, rewards: Tensor, mask: Tensor) -> Tensor:
        """Reward minus the mean of the group's others, optionally over (std + 1e-4) (RLOO, arXiv 2402.14740, eq. 8).

        rewards: [B, F], NaN ("does not apply") counting as 0. Returns [B]. Raises ValueError for a group of one.
        """
        args = self.args
        if args.num_generations < 2 or len(rewards) % args.num_generations:
            raise ValueError(f"{len(rewards)} rewards cannot be cut into groups of {args.num_generations} (at least 2)")
        weights = torch.tensor(args.reward_weights or [1.0] * rewards.shape[1]).view(rewards.shape[1])
        total = (rewards * weights).nansum(1, keepdim=True)
        group = [row // args.num_generations for row in range(len(rewards))]
        advantages = compute_rloo_outcome_advantage(total, torch.ones_like(total), group)[0][:, 0]
        std = total.view(-1, args.num_generations).std(1).repeat_interleave(args.num_generations)
        self.metrics = {
            "completion_length": float(mask.sum(1).float().mean()),
            "reward": float(total.mean()),
            "reward_std": float(std.mean()),
            "zero_std_ratio": float((std == 0).float().mean()),
        }
        self.metrics |= dict(zip((f"rewards/{name}" for name in self.names), rewards.nanmean(0).tolist(), strict=True))
        return (advantages / (std + 1e-4) if args.scale_rewards else advantages).to(mask.device)
