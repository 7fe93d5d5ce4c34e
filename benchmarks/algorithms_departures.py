"""The figures of docs/measurements/published-code.md: published defects beside our results on the same input.

The published behaviour is either still there behind its switch or written out here in a line or two.

    python benchmarks/algorithms_departures.py
"""

from __future__ import annotations

import re
import time

import numpy as np
import torch
from torch import Tensor

from algorithms import advantages
from algorithms.buckets import BUCKETS
from algorithms.difficulty import DifficultyTracker, TargetMode
from algorithms.entropy import entropy_percentile_thresholds, hwe_count, hwe_mask, topk_entropy
from algorithms.kl import BatchKL
from algorithms.kl_controllers import BucketBeta, KLMode
from algorithms.published.kl import AdaptiveKLController, TokenLevelAdaptiveKLController
from rewards.aepo import entropy_score, format_reward

MODES: tuple[TargetMode, ...] = ("batch", "previous", "ema")
KL_MODES: tuple[KLMode, ...] = ("compound", "anchored")


def thresholds() -> None:
    generator = torch.Generator().manual_seed(0)
    entropy, mask = 2.0 * torch.rand(64, 256, generator=generator), torch.ones(64, 256)
    tau = float(np.median(entropy_percentile_thresholds(entropy, mask)))
    counts = [hwe_count(hwe_mask(entropy, mask, value)).mean() for value in (tau, -1.0)]
    crept = tau - (tau + 1.0) * 0.99**200
    print(f"HWE tokens of 256: {counts[0]:.1f} at τ = {tau:.2f}, {counts[1]:.0f} at τ = −1")
    print(f"τ that started at −1, after 200 batches: {crept:.2f}")

    logits = 6.0 * torch.randn(64, 256, 1000, generator=generator)
    logps = torch.log_softmax(logits, -1)
    top = logps.topk(20).values
    exact, tail, without = -(logps.exp() * logps).sum(-1), topk_entropy(top), -(top.exp() * top).sum(-1)
    print("threshold of top-20 entropy, vocabulary 1,000: ", end="")
    named = {"exact": exact, "with the tail term": tail, "without": without}
    print(", ".join(f"{k} {entropy_percentile_thresholds(v, mask).mean():.3f}" for k, v in named.items()))


def alpha() -> None:
    for what, means in (("10, 20, 30", [10, 20, 30]), ("50 × 10.25", [10.25] * 50)):
        for mode in MODES:
            tracker = DifficultyTracker(target_mode=mode)
            for mean in means:
                tracker.update(*(np.array([value]) for value in ("g", 1.0, 1.0, mean)))
            print(f"α of easy after counts {what}, target_mode {mode}: {tracker.alpha_entropy_dict['easy']:.3f}")


def reward() -> None:
    rows = ([1, 0], [0, 1000], [100, 100], [0.5, 0.5], ["hard", "hard"])
    for guard in (False, True):
        right, wrong = entropy_score(*rows, guard_inversion=guard)
        print(f"hard, α = .5, guard_inversion {guard}: right {1 + right:.3f}, wrong {wrong:.3f}")
    for zero in (False, True):
        value = entropy_score([0], [5], [10], [0.5], ["hard"], zero_baseline=zero)[0]
        print(f"hard, α = .5, wrong below target, zero_baseline {zero}: {value:.3f}")
    blanks = " " * 20000 + "x"
    start = time.perf_counter()
    re.sub(r"\s*(<|>|/)\s*", r"\1", blanks)
    published, start = time.perf_counter() - start, time.perf_counter()
    format_reward(blanks)
    print(f"format of 20,000 blanks: published {published:.2f} s, ours {1e3 * (time.perf_counter() - start):.2f} ms")


def kl() -> None:
    for mode in KL_MODES:
        controller = TokenLevelAdaptiveKLController(0.01, 0.1, mode=mode)
        values = []
        for _ in range(500):
            controller.update({"easy": 0.6}, {})
            values.append(controller.kl_coefs["easy"])
        print(f"{mode}, KL .5 above target: {values[99]:.3g} after 100 updates, {values[-1]:.3g} after 500")
        controller = TokenLevelAdaptiveKLController(0.01, 2.0, mode=mode)
        for measured in [0.0] * 100 + [4.0] * 100:
            controller.update({"easy": measured}, {})
        print(f"{mode}, 100 updates 2 below target and 100 above: {controller.kl_coefs['easy']:.3g}")
    adaptive = AdaptiveKLController(0.1, 0.1, 100)
    adaptive.update(0.0, 1024)
    print(f"adaptive, one update of 1,024 rows at horizon 100: .1 → {adaptive.kl_coef:.3f}")

    generator = np.random.default_rng(0)
    whole, ranks = BucketBeta(interval=1), [BucketBeta(interval=1) for _ in range(2)]
    for _ in range(200):
        difficulty = np.array(BUCKETS, dtype=object)[generator.integers(0, 3, 16)]
        values_ = 0.02 * generator.random(16)
        whole.update(BatchKL.of(torch.tensor(values_), difficulty))
        for rank, rows in zip(ranks, (slice(0, 8), slice(8, 16)), strict=True):
            rank.update(BatchKL.of(torch.tensor(values_[rows]), difficulty[rows]))
    medium = [controller.betas["medium"] for controller in (whole, *ranks)]
    print(f"β of medium after 200 updates: {medium[0]:.2f}; each rank by itself {medium[1]:.2f} and {medium[2]:.2f}")


def baselines() -> None:
    scores = torch.full((5,), 123.456)
    published = ((scores - scores.mean()) / (scores.std() + 1e-6)).abs().max()
    ours, _ = advantages.compute_grpo_outcome_advantage(scores[:, None], torch.ones(5, 1), ["a"] * 5)
    print(f"GRPO of five rewards of 123.456: float32 {published:.2f}, ours {ours.abs().max():.2f}")

    generator = torch.Generator().manual_seed(0)
    values = torch.randn(4, 8, generator=generator)
    lengths = torch.tensor([3, 5, 8, 6])
    mask = (torch.arange(8) < lengths[:, None]).float()
    rewards = torch.zeros(4, 8)
    rewards[torch.arange(4), lengths - 1] = torch.tensor([1.0, 0.0, 1.0, 0.0])
    for lam in (1.0, 0.95):
        got, _ = advantages.compute_gae_advantage_return(rewards, values, mask, 1.0, lam)
        leak = (_padded_gae(rewards, values, mask, lam) - got).abs().max()
        print(f"GAE, λ = {lam}: padded values move the published advantage by up to {leak:.3f}")


def _padded_gae(rewards: Tensor, values: Tensor, mask: Tensor, lam: float) -> Tensor:
    """The recursion over padded positions too, γ = 1."""
    last, columns = torch.zeros(len(rewards)), []
    for t in reversed(range(rewards.shape[1])):
        following = values[:, t + 1] if t + 1 < rewards.shape[1] else torch.zeros(len(rewards))
        last = rewards[:, t] + following - values[:, t] + lam * last
        columns.append(last)
    return advantages.masked_whiten(torch.stack(columns[::-1], 1), mask) * mask


def main() -> None:
    for part in (thresholds, alpha, reward, kl, baselines):
        part()


if __name__ == "__main__":
    main()
