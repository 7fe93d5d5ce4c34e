"""One batch through entropy → HWE → difficulty → reward → KL → advantages, vectorised and sample by sample.

Covers the driver's arithmetic of a step, from per-token entropies on; not the model, not the grading.
The comparison is the style of the published code, a Python loop over samples and tokens, written from the same
equations and run on a slice of the batch (its cost is linear in the samples). Both must give the same numbers.

    python benchmarks/algorithms_batch.py [--rows 4096] [--tokens 1024] [--threads 1] [--loop-rows 128]
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from algorithms.advantages import compute_grpo_outcome_advantage
from algorithms.difficulty import DifficultyTracker
from algorithms.entropy import ThresholdTracker, entropy_percentile_thresholds, hwe_count, hwe_mask
from algorithms.protocol import DataProto
from algorithms.published.kl import TokenLevelAdaptiveKLController, apply_kl_penalty
from rewards.aepo import entropy_score

N = 8
WINDOW = 4
MARGIN = {"easy": 0.15, "medium": 0.25, "hard": 0.35}
KAPPA = {"easy": 2.0, "medium": 3.0, "hard": 4.0}
TEMPERATURE = {"easy": 2.0, "medium": 2.5, "hard": 3.0}


def make_batch(rows: int, tokens: int) -> DataProto:
    """Ragged responses, n = 8 per prompt, with what rollout, grading and the learner leave behind."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(tokens // 4, tokens + 1, (rows,), generator=generator)
    mask = (torch.arange(tokens) < lengths[:, None]).float()
    old = -torch.rand(rows, tokens, generator=generator)
    solve_rate = torch.rand(rows // N, generator=generator).repeat_interleave(N)
    accuracy = (torch.rand(rows, generator=generator) < solve_rate).double().numpy()
    return DataProto.from_dict(
        {
            "responses": torch.zeros(rows, tokens, dtype=torch.long),
            "response_mask": mask,
            "entropies": 2.0 * torch.rand(rows, tokens, generator=generator) * mask,
            "old_log_probs": old,
            "ref_log_probs": old + 0.1 * torch.randn(rows, tokens, generator=generator),
        },
        {
            "uid": [f"prompt-{i // N}" for i in range(rows)],
            "global_id": [f"prompt-{i // N}" for i in range(rows)],
            "accuracy": accuracy,
        },
    )


def vectorised(data: DataProto, stage: Callable[[str], object]) -> torch.Tensor:
    entropy, mask = data.batch["entropies"], data.batch["response_mask"]
    tracker, tau = DifficultyTracker(target_mode="ema"), ThresholdTracker()
    stage("threshold")
    threshold = tau.update(entropy_percentile_thresholds(entropy, mask, WINDOW))
    stage("hwe")
    data.batch["hwe_mask"] = hwe_mask(entropy, mask, threshold, WINDOW)
    data.non_tensor_batch["high_entropy_token_num"] = hwe_count(data.batch["hwe_mask"]).astype(object)
    data.non_tensor_batch["entropies"] = (entropy.sum(-1) / mask.sum(-1)).numpy().astype(object)
    stage("difficulty")
    tracker.update_difficulty_and_skip_gid_set(data)
    tracker.annotate(data)
    stage("reward")
    rows = data.non_tensor_batch
    shaped = entropy_score(
        rows["accuracy"],
        rows["high_entropy_token_num"],
        rows["target_high_entropy_token_num"],
        rows["alpha_entropy"],
        rows["difficulty"],
        zero_baseline=True,
        guard_inversion=True,
    )
    scores = torch.zeros_like(mask)
    reward = torch.from_numpy(rows["accuracy"].astype(np.float64) + shaped).float()
    scores[torch.arange(len(data)), mask.sum(-1).long() - 1] = reward
    data.batch["token_level_scores"] = scores
    stage("kl")
    data, _ = apply_kl_penalty(data, TokenLevelAdaptiveKLController(0.01, 0.05, mode="anchored"), "low_var_kl")
    stage("advantages")
    advantages, _ = compute_grpo_outcome_advantage(data.batch["token_level_rewards"], mask, rows["uid"])
    stage("")
    return advantages


def sample_by_sample(data: DataProto) -> list[list[float]]:
    """The same step as a loop over samples and tokens."""
    entropies, masks = data.batch["entropies"].tolist(), data.batch["response_mask"].tolist()
    old, ref = data.batch["old_log_probs"].tolist(), data.batch["ref_log_probs"].tolist()
    gids, accuracy = data.non_tensor_batch["global_id"].tolist(), data.non_tensor_batch["accuracy"].tolist()
    rows = len(data)
    lengths = [int(sum(mask)) for mask in masks]
    windows: list[list[float]] = []
    thresholds = []
    for entropy, length in zip(entropies, lengths, strict=True):
        moving = [sum(entropy[i + 1 : i + 1 + WINDOW]) / WINDOW for i in range(length - WINDOW)]
        filled = list(moving)
        while len(filled) < length:
            filled.append(sum(moving) / len(moving) if moving else entropy[0])
        windows.append(moving)
        thresholds.append(float(np.percentile(filled, 95)))
    tau = float(np.median(thresholds))
    counts = [sum(1 for value in moving if value >= tau) for moving in windows]

    by_gid: dict[str, list[int]] = defaultdict(list)
    for i, gid in enumerate(gids):
        by_gid[gid].append(i)
    difficulty, means = {}, defaultdict(list)
    for gid, members in by_gid.items():
        p = sum(accuracy[i] for i in members) / len(members)
        difficulty[gid] = "easy" if p >= 2 / 3 else "medium" if p >= 1 / 3 else "hard"
        means[difficulty[gid]].append(sum(counts[i] for i in members) / len(members))
    target, alpha = {}, {}
    for bucket, values in means.items():
        mean = sum(values) / len(values)
        target[bucket] = round(mean)
        residue = target[bucket] - mean if bucket == "hard" else mean - target[bucket]
        alpha[bucket] = min(max(0.5 + 0.05 * residue, 0.0), 2.0)

    totals = []
    for i in range(rows):
        bucket = difficulty[gids[i]]
        reward = accuracy[i] + _score(accuracy[i], counts[i], target[bucket], alpha[bucket], bucket)
        kl = 0.0
        for t in range(lengths[i]):
            x = min(max(ref[i][t] - old[i][t], -20.0), 20.0)
            kl += min(max(math.exp(x) - x - 1.0, -10.0), 10.0)
        totals.append(reward - 0.01 * kl)
    advantages = []
    for i in range(rows):
        group = [totals[j] for j in by_gid[gids[i]]]
        mean = sum(group) / len(group)
        std = math.sqrt(sum((value - mean) ** 2 for value in group) / (len(group) - 1))
        value = (totals[i] - mean) / (std + 1e-6)
        advantages.append([value * m for m in masks[i]])
    return advantages


def _score(accuracy: float, n: float, t: float, alpha: float, bucket: str) -> float:
    """One sample of the AEPO reward with both switches on, case by case."""
    kappa, temperature = KAPPA[bucket], TEMPERATURE[bucket]
    share = {"easy": 0.6, "medium": 0.8, "hard": 1.0}[bucket]
    cap = min(alpha * (1.2 if bucket == "hard" else 1.0), 1.0 / (1.0 + share))
    margin, delta = max(1.0, MARGIN[bucket] * max(t, 1.0)), n - t

    def huber(x: float) -> float:
        return 0.0 if x < 0 else x * x / (2 * kappa) if x <= kappa else x - kappa / 2

    def saturate(x: float) -> float:
        return 2.0 / (1.0 + math.exp(-min(x / temperature, 700.0))) - 1.0

    if accuracy != 1.0:
        return share * cap * saturate(max(delta - margin, 0.0))
    if bucket == "hard":
        if delta >= -margin:
            return cap * saturate(delta + margin)
        return -min(cap, 0.5 * huber(-delta - margin) / (margin + kappa) * cap)
    distance = delta if bucket == "easy" else abs(delta)
    return -min(cap, huber(max(distance - margin, 0.0)) / (margin + kappa) * cap)


@contextmanager
def stopwatch(times: dict[str, float]) -> Iterator[Callable[[str], object]]:
    """A function that ends the running stage and starts the named one."""
    running, since = "", time.perf_counter()

    def stage(name: str) -> None:
        nonlocal running, since
        if running:
            times[running] = time.perf_counter() - since
        running, since = name, time.perf_counter()

    yield stage


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--loop-rows", type=int, default=128)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    best = math.inf
    stages: dict[str, float] = {}
    for _ in range(5):
        data = make_batch(arguments.rows, arguments.tokens)
        times: dict[str, float] = {}
        start = time.perf_counter()
        with stopwatch(times) as stage:
            vectorised(data, stage)
        elapsed = time.perf_counter() - start
        if elapsed < best:
            best, stages = elapsed, times

    part = make_batch(arguments.loop_rows, arguments.tokens)
    start = time.perf_counter()
    expected = sample_by_sample(part)
    loop = (time.perf_counter() - start) * arguments.rows / arguments.loop_rows
    with stopwatch({}) as stage:
        got = vectorised(part, stage)
    difference = float((got - torch.tensor(expected)).abs().max())

    print(f"{arguments.rows} × {arguments.tokens} tokens, {arguments.threads} threads, best of 5")
    for name, seconds in stages.items():
        print(f"  {name:<12}{1e3 * seconds:8.1f} ms")
    print(f"  {'total':<12}{1e3 * best:8.1f} ms")
    print(f"  sample by sample ({arguments.loop_rows} rows, scaled): {loop:.1f} s, {loop / best:.0f}× as long")
    print(f"  largest difference between the two: {difference:.1e}")


if __name__ == "__main__":
    main()
