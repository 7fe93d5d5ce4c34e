"""Measure a tiny model after its warm start: sampled accuracy, difficulty buckets, entropies.

Covers: the figures in the warm start's report. Does not cover: rollouts and validation of a run, which are the engines'
(ares/engines); this sampler runs one model in one process and does not drop finished rows early.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

from algorithms.buckets import BUCKETS
from algorithms.difficulty import difficulty_codes
from ares.engines import left_padded

QUANTILES = (0.5, 0.8, 0.9, 0.95, 0.99)
DECISION_NATS = 0.5
"""A token with more entropy than this is counted as a decision."""


@dataclass(frozen=True)
class ResponseBatch:
    """Responses of one batch and the entropy (nats) at each of their tokens, [B, L] with its mask."""

    texts: list[str]
    entropy: Tensor
    mask: Tensor


@dataclass(frozen=True)
class Responses:
    """Responses to many prompts: text (None if unfinished), lengths in tokens, and all tokens' entropies (nats)."""

    texts: list[str | None]
    lengths: list[int]
    entropy: Tensor


@dataclass(frozen=True)
class SampledAccuracy:
    """Accuracy at temperature 1 with n samples per prompt; shares add up to 1."""

    prompts: int
    samples_per_prompt: int
    accuracy: float
    accuracy_by_level: dict[str, float]
    bucket_shares: dict[str, float]
    share_all_wrong: float
    share_all_right: float


@dataclass(frozen=True)
class Measurement(SampledAccuracy):
    """The same, with lengths in tokens and entropies in nats."""

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
    generator: torch.Generator | None,
) -> ResponseBatch:
    """One response per prompt (token ids) at temperature 1; greedy without a generator."""
    ids, seen = left_padded(prompts, tokenizer.pad_token_id)
    width = ids.shape[1]
    attended = torch.cat([seen, seen.new_ones(len(prompts), max_new_tokens)], 1)
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
        drawn, entropy = _next_tokens(output.logits[:, -1], generator)
        tokens.append(torch.where(finished, tokenizer.pad_token_id, drawn))
        entropies.append(entropy)
        masks.append(~finished)
        finished = finished | (tokens[-1] == tokenizer.eos_token_id)
        fresh = tokens[-1][:, None]
        if finished.all():
            break
    mask = torch.stack(masks, 1)
    texts = [tokenizer.decode(row[kept]) for row, kept in zip(torch.stack(tokens, 1), mask, strict=True)]
    return ResponseBatch(texts, torch.stack(entropies, 1), mask)


def _next_tokens(logits: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """A token for each row of logits [B, V], and the row's entropy (nats): [B] each."""
    log_probabilities = torch.log_softmax(logits.float(), -1)
    probabilities = log_probabilities.exp()
    if generator is None:
        drawn = probabilities.argmax(-1)
    else:
        drawn = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    return drawn, -(probabilities * log_probabilities).sum(-1)


def draw(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    prompts: Sequence[Sequence[int]],
    *,
    samples_per_prompt: int = 8,
    max_new_tokens: int = 80,
    batch_prompts: int = 64,
    generator: torch.Generator | None,
) -> Responses:
    """`samples_per_prompt` responses to every prompt, grouped by prompt; greedy without a generator."""
    end = tokenizer.eos_token
    texts: list[str | None] = []
    lengths: list[int] = []
    entropies: list[Tensor] = []
    for start in range(0, len(prompts), batch_prompts):
        chosen = [prompt for prompt in prompts[start : start + batch_prompts] for _ in range(samples_per_prompt)]
        batch = sample(model, tokenizer, chosen, max_new_tokens=max_new_tokens, generator=generator)
        texts += [text.removesuffix(end) if text.endswith(end) else None for text in batch.texts]
        lengths += batch.mask.sum(1).tolist()
        entropies.append(batch.entropy[batch.mask])
    return Responses(texts, lengths, torch.cat(entropies))


def sampled_accuracy(right: Sequence[bool], levels: Sequence[str]) -> SampledAccuracy:
    """`right` has one entry per response, grouped by prompt, `levels` one per prompt."""
    samples_per_prompt = len(right) // len(levels)
    accuracy = torch.tensor(right, dtype=torch.float64).view(len(levels), samples_per_prompt).mean(1)
    codes = difficulty_codes(accuracy.numpy())
    return SampledAccuracy(
        prompts=len(levels),
        samples_per_prompt=samples_per_prompt,
        accuracy=share(right),
        accuracy_by_level=by_label(accuracy, levels),
        bucket_shares={bucket: float((codes == code).mean()) for code, bucket in enumerate(BUCKETS)},
        share_all_wrong=share(accuracy == 0),
        share_all_right=share(accuracy == 1),
    )


def measurement(responses: Responses, right: Sequence[bool], levels: Sequence[str]) -> Measurement:
    """The figures of drawn responses; `right` has one entry per response, `levels` one per prompt."""
    quantiles = torch.quantile(responses.entropy, torch.tensor(QUANTILES))
    return Measurement(
        **vars(sampled_accuracy(right, levels)),
        finished=share([text is not None for text in responses.texts]),
        mean_length=sum(responses.lengths) / len(responses.lengths),
        max_length=max(responses.lengths),
        entropy_mean=responses.entropy.mean().item(),
        entropy_quantiles={str(level): value for level, value in zip(QUANTILES, quantiles.tolist(), strict=True)},
        decision_share=share(responses.entropy > DECISION_NATS),
    )


def measure(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    prompts: Sequence[Sequence[int]],
    is_correct: Sequence[Callable[[str], bool]],
    levels: Sequence[str],
    *,
    samples_per_prompt: int = 8,
    max_new_tokens: int = 80,
    seed: int = 0,
) -> Measurement:
    """Sample every prompt and measure the responses. An unfinished response is wrong."""
    responses = draw(
        model,
        tokenizer,
        prompts,
        samples_per_prompt=samples_per_prompt,
        max_new_tokens=max_new_tokens,
        generator=torch.Generator().manual_seed(seed),
    )
    right = [
        text is not None and is_correct[row // samples_per_prompt](text) for row, text in enumerate(responses.texts)
    ]
    return measurement(responses, right, levels)


def by_label(values: Tensor, labels: Sequence[str]) -> dict[str, float]:
    """Mean of the values of each label, labels sorted."""
    return {
        label: values[[index for index, other in enumerate(labels) if other == label]].mean().item()
        for label in sorted(set(labels))
    }


def share(flags: Sequence[bool] | Tensor) -> float:
    """Share of true entries."""
    return torch.as_tensor(flags).double().mean().item()
