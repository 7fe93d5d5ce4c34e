"""The AEPO reward and soft overlong punishment against recorded numbers."""

import pytest

from rewards import aepo
from rewards.overlong import soft_overlong


def test_compute_score(golden):
    for case in golden("compute_score"):
        rows, kwargs = case["inputs"]["reward_inputs"], case["inputs"]["kwargs"]
        # The recordings put counts below zero to reach a boundary; no rollout has those, and here they are an error.
        if any(row.get("high_entropy_token_num", 1) < 0 for row in rows):
            with pytest.raises(ValueError, match="high_entropy_token_num"):
                aepo.compute_score(rows, **kwargs)
            continue
        scores = aepo.compute_score(rows, **kwargs)
        assert len(scores) == len(case["expected"])
        for score, expected in zip(scores, case["expected"], strict=True):
            assert score == pytest.approx(expected, abs=1e-12)


def test_an_explicit_zero_accuracy_counts(golden):
    for case in golden("compute_score_defects"):
        scores = aepo.compute_score(case["inputs"]["reward_inputs"], **case["inputs"]["kwargs"])
        for score, intended, upstream in zip(scores, case["intended"], case["upstream"], strict=True):
            assert score == pytest.approx(intended, abs=1e-12)
            assert score != pytest.approx(upstream, abs=1e-3)


def test_primitives(golden):
    for case in golden("aepo_primitives"):
        value = getattr(aepo, case["fn"])(**case["inputs"])
        assert float(value) == pytest.approx(case["expected"], abs=1e-15)


def test_soft_overlong(golden):
    for case in golden("soft_overlong"):
        inputs = case["inputs"]
        value = soft_overlong([inputs["length"]], inputs["max_completion_len"], inputs["soft_punish_cache"])
        assert float(value[0]) == pytest.approx(case["expected"], abs=1e-12)
