"""Entropy, HWE tokens, difficulty and filtering against recorded numbers."""

import numpy as np
import pytest
import torch

from algorithms import entropy as ent
from algorithms.buckets import BUCKETS
from algorithms.difficulty import DifficultyTracker
from algorithms.filtering import informative_rows
from algorithms.protocol import DataProto
from algorithms.settings import DifficultySettings


def test_update_difficulty(golden):
    for case in golden("update_difficulty"):
        init = case["inputs"]["init"]
        tracker = DifficultyTracker(
            DifficultySettings(
                alpha_init=dict(zip(BUCKETS, init["alpha"], strict=True)),
                alpha_lr=init["lr"],
                alpha_min=init["min"],
                alpha_max=init["max"],
                target_mode="batch",
            )
        )
        for rows, expected in zip(case["inputs"]["batches"], case["expected"], strict=True):
            tracker.update_difficulty_and_skip_gid_set(DataProto.from_dict(non_tensors=rows))
            assert tracker.difficulty_dict_train == expected["difficulty_dict_train"]
            assert tracker.target_high_entropy_token_num_dict == expected["target_high_entropy_token_num_dict"]
            assert tracker.alpha_entropy_dict == pytest.approx(expected["alpha_entropy_dict"], abs=1e-12)
            assert tracker.skip_gid_set == set(expected["skip_gid_set"])


def test_hwe_of_a_rollout(golden):
    for case in golden("hwe_rollout"):
        inputs, expected = case["inputs"], case["expected"]
        rows = inputs["topk_logprobs"]
        topk = torch.full((1, len(rows), max(map(len, rows))), -torch.inf)
        for i, row in enumerate(rows):
            topk[0, i, : len(row)] = torch.tensor([logprob for _, logprob in row])
        entropy = ent.topk_entropy(topk)
        mask = torch.ones(entropy.shape)
        assert entropy.mean().item() == pytest.approx(expected["mean_entropy_tail_corrected"], abs=1e-5)

        # The recorded threshold leaves the tail term out; the percentile itself is checked on that entropy.
        without_tail = -(topk.exp() * topk.masked_fill(topk == -torch.inf, 0.0)).sum(-1)
        threshold = ent.entropy_percentile_thresholds(without_tail, mask, inputs["window_size"], inputs["percentile"])
        assert threshold[0] == pytest.approx(expected["percentile_threshold_no_tail"], abs=1e-5)

        # Recorded with the argmax in place of the sampled token.
        tokens = torch.tensor([[max(row, key=lambda entry: entry[1])[0] for row in rows]])
        trigger = ent.trigger_mask(tokens, ent.trigger_vocabulary(inputs["vocab"], inputs["trigger_set"]))
        arguments = (entropy, mask, inputs["threshold"], inputs["window_size"], trigger)
        hwe = ent.hwe_mask(*arguments)
        assert ent.hwe_count(hwe)[0] == expected["hwe_count"]
        assert ent.soft_cost(*arguments)[0] == pytest.approx(expected["soft_cost"], abs=1e-5)
        complete = ~ent.window_entropy(entropy, mask, inputs["window_size"]).isnan()
        assert int((complete & trigger & ~hwe).sum()) == expected["non_hwe_trigger_count"]


def test_normalize_token(golden):
    for case in golden("normalize_token"):
        assert ent.normalize_token(case["inputs"]) == case["expected"]


def test_threshold_ema(golden):
    for case in golden("ema_threshold"):
        tracker = ent.ThresholdTracker()
        thresholds = [tracker.update(batch) for batch in case["inputs"]]
        assert thresholds == pytest.approx(case["expected"], abs=1e-12)


def test_online_filter(golden):
    for case in golden("online_filter"):
        scores = np.array(case["inputs"]["group_scores"])
        uid = np.repeat(np.arange(len(scores)), scores.shape[1])
        kept = informative_rows(uid, scores.ravel(), case["inputs"]["filter_low"], case["inputs"]["filter_high"])
        assert np.flatnonzero(kept.reshape(scores.shape).all(1)).tolist() == case["expected"]
