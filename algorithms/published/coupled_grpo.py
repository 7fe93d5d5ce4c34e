"""Coupled-GRPO (DiffuCoder, arXiv 2506.20639) with the interface of the published trainer.

Covered: `DiffuGRPOTrainer` with forward_process, _get_per_token_logps, _generate_and_score_completions and compute_loss
as its users know them, for one process with a transformers model and tokenizer. Masks, log-probs, denoising,
advantages, loss and KL are those of the training loop, under the published names. Not covered: optimiser, devices,
resuming (`ares train diffucoder`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algorithms.advantages import compute_rloo_outcome_advantage
from algorithms.denoising import (
    DenoisingSettings,
    Order,
    completion_logits,
    completion_mask,
    denoise_completions,
)
from algorithms.losses import compute_kl_loss
from algorithms.published.coupled_log_probs import forward_process, selective_log_softmax
from algorithms.published.losses import compute_policy_loss

__all__ = ["DiffuGRPOConfig", "DiffuGRPOTrainer", "forward_process", "selective_log_softmax"]

FIXED_MASK_SEED = 42
LARGEST_MASK_SEED = 2**31 - 1
STD_EPS = 1e-4

RewardFunction = Callable[..., Sequence[float | None]]
"""TRL's signature: f(prompts=…, completions=…, **columns) returns None where it does not apply."""


@dataclass
class DiffuGRPOConfig:
    """Settings of the published recipe."""

    num_generations: int = 10
    num_iterations: int = 2
    """Updates per generated batch, each with its own masks."""
    gradient_accumulation_steps: int = 1
    beta: float = 0.01
    epsilon: float = 0.5
    scale_rewards: bool = False
    reward_weights: Sequence[float] | None = None
    max_prompt_length: int | None = 200
    max_completion_length: int = 256
    diffusion_steps: int = 256
    temperature: float = 1.0
    top_p: float = 0.95
    alg: Order = "entropy"
    alg_temp: float = 0.0
    generation_batch_size: int = 10
    random_masking: bool = True
    """Draw mask seeds for each batch; if false, 42 for every iteration."""
    seed: int = 0
    """Seeds the mask seeds and the draws of generation; the global generator is never touched."""

    def denoising(self) -> DenoisingSettings:
        return DenoisingSettings(self.diffusion_steps, self.temperature, self.top_p, self.alg, self.alg_temp)


class DiffuGRPOTrainer:
    """Coupled-GRPO on a policy, a reference and reward functions."""

    def __init__(
        self,
        model: Any,
        reward_funcs: RewardFunction | Sequence[RewardFunction],
        args: DiffuGRPOConfig | None = None,
        processing_class: Any = None,
        ref_model: Any = None,
    ) -> None:
        self.model = model
        self.ref_model = ref_model
        self.reward_funcs = list(reward_funcs) if isinstance(reward_funcs, Sequence) else [reward_funcs]
        self.args = args or DiffuGRPOConfig()
        self.processing_class = processing_class
        if self.args.beta and ref_model is None:
            raise ValueError("beta > 0 needs ref_model")
        weights = self.args.reward_weights
        if weights is not None and len(weights) != len(self.reward_funcs):
            raise ValueError(f"{len(weights)} reward_weights for {len(self.reward_funcs)} reward functions")
        self.generator = torch.Generator().manual_seed(self.args.seed)
        self.metrics: dict[str, float] = {}
        """Those of the last generated batch."""

    def forward_process(
        self, batch: Tensor, prompt_index: Tensor, mask_id: int, seed: int | None = None, accumulate: bool = False
    ) -> tuple[list[Tensor], list[float], Tensor]:
        """`forward_process` with the configured gradient_accumulation_steps."""
        parts = self.args.gradient_accumulation_steps
        return forward_process(batch, prompt_index, mask_id, seed, accumulate, parts)

    def _get_per_token_logps(
        self, model: Any, input_ids: Tensor, logits_to_keep: int, mask_seeds: Sequence[int], accumulate: bool = False
    ) -> Tensor:
        """Coupled log-probs of the last `logits_to_keep` tokens, one mask per iteration.

        input_ids: [I, B, L]; mask_seeds: I of them. `accumulate`: the B rows are several micro-batches that share a
        mask. Returns [B, I, K] float32. Padding before a prompt is not attended to. Raises ValueError.
        """
        if input_ids.ndim != 3:
            raise ValueError(f"input_ids must be [iterations, B, L], got {tuple(input_ids.shape)}")
        iterations, rows, length = input_ids.shape
        if len(mask_seeds) != iterations:
            raise ValueError(f"{len(mask_seeds)} mask seeds for {iterations} iterations")
        prompt_index = torch.arange(length, device=input_ids.device) < length - logits_to_keep
        mask_id = self.processing_class.mask_token_id
        versions: list[Tensor] = []
        weights: list[float] = []
        masks: list[Tensor] = []
        for ids, seed in zip(input_ids, mask_seeds, strict=True):
            masked, of_version, mask = self.forward_process(
                ids, prompt_index, mask_id, seed=seed, accumulate=accumulate
            )
            versions += masked
            weights += of_version
            masks.append(mask[:, -logits_to_keep:])
        seen = self._attended(input_ids, logits_to_keep).repeat_interleave(3, 0).flatten(0, 1)
        logits = completion_logits(model, torch.cat(versions), logits_to_keep, seen)
        log_probs = selective_log_softmax(
            logits,
            input_ids[:, :, -logits_to_keep:].flatten(0, 1),
            torch.tensor(weights, device=logits.device),
            torch.cat(masks),
        )
        return log_probs.view(iterations, rows, logits_to_keep).transpose(0, 1).float()

    def _attended(self, input_ids: Tensor, logits_to_keep: int) -> Tensor:
        """False at the padding before each prompt: [I, B, L]."""
        pad_id = getattr(self.processing_class, "pad_token_id", None)
        if pad_id is None:
            return torch.ones_like(input_ids, dtype=torch.bool)
        inside = (input_ids != pad_id).long()
        inside[..., -logits_to_keep:] = 1
        return inside.cumsum(-1) > 0

    def _generate_and_score_completions(self, inputs: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Sample completions, score them and compute leave-one-out advantages.

        inputs: rows with `prompt` (text or chat messages) and the columns that reward functions take; the rows of one
        prompt are contiguous, num_generations of each. Returns prompt_ids, prompt_mask, completion_ids,
        completion_mask, old_per_token_logps [B, I, K] (None when I is 1), ref_per_token_logps (None when beta is 0),
        advantages [B] and mask_seeds [I]; `metrics` holds what was measured.
        """
        args = self.args
        prompt_ids, prompt_mask = self._encode(inputs)
        completions = torch.cat(
            [
                self._generate(ids, mask)
                for ids, mask in zip(
                    prompt_ids.split(args.generation_batch_size),
                    prompt_mask.split(args.generation_batch_size),
                    strict=True,
                )
            ]
        )
        mask = completion_mask(completions == self.processing_class.eos_token_id)
        mask_seeds = self._mask_seeds()
        repeated = torch.cat([prompt_ids, completions], 1).expand(args.num_iterations, -1, -1)
        whole = args.gradient_accumulation_steps > 1 and len(inputs) % args.gradient_accumulation_steps == 0
        keep = completions.shape[1]
        with torch.no_grad():
            old = None
            if args.num_iterations > 1:
                old = self._get_per_token_logps(self.model, repeated, keep, mask_seeds, accumulate=whole)
            ref = None
            if args.beta:
                ref = self._get_per_token_logps(self.ref_model, repeated, keep, mask_seeds, accumulate=whole)
        rewards = self._rewards(inputs, completions, mask)
        advantages = self._advantages(rewards, mask)
        return {
            "prompt_ids": prompt_ids,
            "prompt_mask": prompt_mask,
            "completion_ids": completions,
            "completion_mask": mask,
            "old_per_token_logps": old,
            "ref_per_token_logps": ref,
            "advantages": advantages,
            "mask_seeds": mask_seeds,
        }

    def compute_loss(self, batch: dict[str, Any], iteration: int = 0) -> Tensor:
        """Loss of a micro-batch (rows of what `_generate_and_score_completions` returned) in one of its iterations."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)[None]
        keep = batch["completion_ids"].shape[1]
        log_probs = self._get_per_token_logps(self.model, ids, keep, [batch["mask_seeds"][iteration]])[:, 0]
        old, ref = batch["old_per_token_logps"], batch["ref_per_token_logps"]
        loss, measured = coupled_grpo_loss(
            log_probs,
            batch["advantages"],
            batch["completion_mask"],
            None if old is None else old[:, iteration],
            None if ref is None else ref[:, iteration],
            self.args.beta,
            self.args.epsilon,
        )
        self.metrics |= measured
        return loss

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _encode(self, inputs: Sequence[dict[str, Any]]) -> tuple[Tensor, Tensor]:
        """Prompts through the chat template, padded left, their last max_prompt_length tokens."""
        tokenizer = self.processing_class
        texts = [
            row["prompt"]
            if isinstance(row["prompt"], str)
            else tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
            for row in inputs
        ]
        encoded = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
        ids, mask = encoded["input_ids"], encoded["attention_mask"]
        if self.args.max_prompt_length is not None:
            ids, mask = ids[:, -self.args.max_prompt_length :], mask[:, -self.args.max_prompt_length :]
        return ids.to(self._device), mask.to(self._device)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    @torch.no_grad()
    def _generate(self, prompt_ids: Tensor, prompt_mask: Tensor) -> Tensor:
        """Completions [B, K], by the model's own `diffusion_generate` if it has one."""
        args, mask_id = self.args, self.processing_class.mask_token_id
        width, keep = prompt_ids.shape[1], args.max_completion_length
        own = getattr(self.model, "diffusion_generate", None)
        if own is not None:
            output = own(
                prompt_ids,
                attention_mask=prompt_mask,
                max_new_tokens=keep,
                output_history=False,
                return_dict_in_generate=True,
                steps=args.diffusion_steps,
                temperature=args.temperature,
                top_p=args.top_p,
                alg=args.alg,
                alg_temp=args.alg_temp,
            )
            return output.sequences[:, width:]
        shape = (len(prompt_ids), keep)

        def uniform(purpose: str, step: int) -> Tensor:
            return torch.rand(shape, generator=self.generator, dtype=torch.float64).to(prompt_ids.device)

        canvas = denoise_completions(self.model, prompt_ids, prompt_mask, keep, args.denoising(), mask_id, uniform)
        return canvas.tokens

    def _mask_seeds(self) -> list[int]:
        if not self.args.random_masking:
            return [FIXED_MASK_SEED] * self.args.num_iterations
        return torch.randint(0, LARGEST_MASK_SEED, (self.args.num_iterations,), generator=self.generator).tolist()

    def _rewards(self, inputs: Sequence[dict[str, Any]], completions: Tensor, mask: Tensor) -> Tensor:
        """[B, F], NaN where a function does not apply. Tokens after the end token are not part of the text."""
        kept = [row[: int(length)].tolist() for row, length in zip(completions, mask.sum(1), strict=True)]
        texts = self.processing_class.batch_decode(kept, skip_special_tokens=True)
        prompts = [row["prompt"] for row in inputs]
        replies: list[Any] = texts
        if not isinstance(prompts[0], str):
            replies = [[{"role": "assistant", "content": text}] for text in texts]
        columns = {name: [row[name] for row in inputs] for name in inputs[0] if name not in ("prompt", "completion")}
        table = torch.full((len(inputs), len(self.reward_funcs)), torch.nan)
        for place, function in enumerate(self.reward_funcs):
            scores = function(prompts=prompts, completions=replies, **columns)
            if len(scores) != len(inputs):
                raise ValueError(f"{_name(function)} returned {len(scores)} rewards for {len(inputs)} completions")
            table[:, place] = torch.tensor([torch.nan if score is None else float(score) for score in scores])
        return table

    def _advantages(self, rewards: Tensor, mask: Tensor) -> Tensor:
        weights = torch.tensor(self.args.reward_weights or [1.0] * rewards.shape[1])
        total = weighted_rewards(rewards, weights)
        advantages, std = leave_one_out_advantages(total, self.args.num_generations, self.args.scale_rewards)
        self.metrics = {
            "completion_length": float(mask.sum(1).float().mean()),
            "reward": float(total.mean()),
            "reward_std": float(std.mean()),
            "zero_std_ratio": float((std == 0).float().mean()),
        } | {
            f"rewards/{_name(function)}": float(values.nanmean())
            for function, values in zip(self.reward_funcs, rewards.T, strict=True)
        }
        return advantages.to(mask.device)


def weighted_rewards(rewards_per_function: Tensor, weights: Tensor) -> Tensor:
    """Weighted sum over reward functions, NaN ("does not apply") counting as 0. [B, F] and [F] → [B]."""
    return (rewards_per_function * weights.to(rewards_per_function)).nansum(1)


def leave_one_out_advantages(rewards: Tensor, num_generations: int, scale: bool = False) -> tuple[Tensor, Tensor]:
    """Reward minus the mean of the group's others, optionally over (std + 1e-4) (RLOO, arXiv 2402.14740, eq. 8).

    rewards: [B], groups contiguous. Returns advantages [B] and each row's group std [B] (unbiased). Raises ValueError
    if B is not divisible into groups of at least two.
    """
    if num_generations < 2 or len(rewards) % num_generations:
        raise ValueError(f"{len(rewards)} rewards cannot be cut into groups of {num_generations} (at least 2)")
    group = [row // num_generations for row in range(len(rewards))]
    column = rewards[:, None]
    advantages = compute_rloo_outcome_advantage(column, torch.ones_like(column), group)[0][:, 0]
    std = rewards.view(-1, num_generations).std(1).repeat_interleave(num_generations).float()
    return advantages / (std + STD_EPS) if scale else advantages, std


def coupled_grpo_loss(
    log_probs: Tensor,
    advantages: Tensor,
    mask: Tensor,
    old_log_probs: Tensor | None = None,
    ref_log_probs: Tensor | None = None,
    beta: float = 0.0,
    epsilon: float = 0.5,
) -> tuple[Tensor, dict[str, float]]:
    """Σ(−min(ρA, clip(ρ, 1±ε)A) + β·k3)·mask / max(Σmask, 1) (coupled-GRPO, eq. 6): PPO without a dual clip.

    log_probs, old_log_probs, ref_log_probs, mask: [B, K]; advantages: [B]. Without old log-probs ρ is 1 and carries the
    gradient. Returns the loss and the metrics clip_ratio (share of tokens) and, with a reference, kl (nats a token).
    """
    tokens = mask.sum().clamp(min=1)
    old = log_probs.detach() if old_log_probs is None else old_log_probs
    advantage = advantages[:, None].expand_as(log_probs)
    loss, measured = compute_policy_loss(
        old, log_probs, advantage, mask, epsilon, epsilon, clip_ratio_dual=math.inf, normalizer=tokens
    )
    metrics = {"clip_ratio": measured["pg_clipfrac_higher"]}
    if ref_log_probs is not None:
        kl, _ = compute_kl_loss(log_probs, ref_log_probs, mask, normalizer=tokens)
        metrics["kl"] = float(kl.detach())
        loss = loss + beta * kl
    return loss, metrics


def _name(function: RewardFunction) -> str:
    return getattr(function, "__name__", type(function).__name__)
