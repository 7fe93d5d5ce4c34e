"""How a tiny model fares after its warm start: sampled accuracy, difficulty buckets, entropies.

Covers: what the warm start reports about its own result. Does not cover: rollouts and validation of a run, which
belong to an engine (ares/engines); this sampler knows one model, one process, no early release of finished rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

QUANTILES = (0.5, 0.8, 0.9, 0.95, 0.99)
DECISION_NATS = 0.5
"""A token with more entropy than this is counted as a decision."""


@dataclass(frozen=True)
class Sampled:
    """Responses of one batch and, token by token, the entropy (nats) they were drawn at, [B, L] with its mask."""

    texts: list[str]
    entropy: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Measurement:
    """Accuracy at temperature 1 with n samples per prompt; shares add up to 1; entropies are in nats."""

    prompts: int
    samples_per_prompt: int
    accuracy: float
    accuracy_by_level: dict[str, float]
    bucket_shares: dict[str, float]
    share_all_wrong: float
    share_all_right: float
    finished: float
    mean_length: float
    max_length: int
    entropy_mean: float
    entropy_quantiles: dict[str, float]
    decision_share: float

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@torch.no_grad()
def sample(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    generator: torch.Generator,
) -> Sampled:
    """One response per prompt (token ids) at temperature 1."""
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), tokenizer.pad_token_id)
    attended = torch.ones((len(prompts), width + max_new_tokens), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        attended[row, : width - len(prompt)] = 0
    positions = (attended.cumsum(1) - 1).clamp(min=0)

    cache, fresh = None, ids
    finished = torch.zeros(len(prompts), dtype=torch.bool)
    tokens, entropies, masks = [], [], []
    for end in range(width, width + max_new_tokens):
        output = model(
            input_ids=fresh,
            attention_mask=attended[:, :end],
            position_ids=positions[:, end - fresh.shape[1] : end],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = output.past_key_values
        log_probabilities = torch.log_softmax(output.logits[:, -1].float(), -1)
        probabilities = log_probabilities.exp()
        drawn = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
        tokens.append(torch.where(finished, tokenizer.pad_token_id, drawn))
        entropies.append(-(probabilities * log_probabilities).sum(-1))
        masks.append(~finished)
        finished = finished | (tokens[-1] == tokenizer.eos_token_id)
        fresh = tokens[-1][:, None]
        if finished.all():
            break
    mask = torch.stack(masks, 1)
    texts = [tokenizer.decode(row[kept]) for row, kept in zip(torch.stack(tokens, 1), mask, strict=True)]
    return Sampled(texts, torch.stack(entropies, 1), mask)


def measure(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    prompts: Sequence[Sequence[int]],
    is_correct: Sequence[Callable[[str], bool]],
    levels: Sequence[str],
    *,
    samples_per_prompt: int = 8,
    max_new_tokens: int = 80,
    batch_prompts: int = 64,
    seed: int = 0,
) -> Measurement:
    """Sample every prompt `samples_per_prompt` times and count. A response that does not end in time is wrong."""
    generator = torch.Generator().manual_seed(seed)
    end = tokenizer.eos_token
    right: list[bool] = []
    lengths: list[int] = []
    finished: list[bool] = []
    entropies: list[Tensor] = []
    for start in range(0, len(prompts), batch_prompts):
        rows = [
            row for row in range(start, min(start + batch_prompts, len(prompts))) for _ in range(samples_per_prompt)
        ]
        batch = sample(
            model, tokenizer, [prompts[row] for row in rows], max_new_tokens=max_new_tokens, generator=generator
        )
        for row, text in zip(rows, batch.texts, strict=True):
            finished.append(text.endswith(end))
            right.append(finished[-1] and is_correct[row](text.removesuffix(end)))
        lengths += batch.mask.sum(1).tolist()
        entropies.append(batch.entropy[batch.mask])

    accuracy = torch.tensor(right, dtype=torch.float64).view(len(prompts), samples_per_prompt).mean(1)
    entropy = torch.cat(entropies)
    quantiles = torch.quantile(entropy, torch.tensor(QUANTILES))
    easy, hard = accuracy >= 2 / 3, accuracy < 1 / 3
    return Measurement(
        prompts=len(prompts),
        samples_per_prompt=samples_per_prompt,
        accuracy=_share(right),
        accuracy_by_level={
            level: accuracy[[index for index, other in enumerate(levels) if other == level]].mean().item()
            for level in sorted(set(levels))
        },
        bucket_shares={"easy": _share(easy), "medium": _share(~easy & ~hard), "hard": _share(hard)},
        share_all_wrong=_share(accuracy == 0),
        share_all_right=_share(accuracy == 1),
        finished=_share(finished),
        mean_length=sum(lengths) / len(lengths),
        max_length=max(lengths),
        entropy_mean=entropy.mean().item(),
        entropy_quantiles={str(level): value for level, value in zip(QUANTILES, quantiles.tolist(), strict=True)},
        decision_share=_share(entropy > DECISION_NATS),
    )


def _share(flags: Sequence[bool] | Tensor) -> float:
    return torch.as_tensor(flags).double().mean().item()
