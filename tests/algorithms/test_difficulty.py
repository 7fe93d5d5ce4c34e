"""Difficulty buckets, targets and the adaptation of alpha."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.buckets import BUCKETS, bucket_index
from algorithms.difficulty import DifficultyTracker, difficulty_bucket
from algorithms.protocol import DataProto
from algorithms.settings import DifficultySettings

quick = settings(max_examples=25, deadline=None)


@st.composite
def batch(draw):
    n = draw(st.integers(1, 4))
    gids = draw(st.lists(st.integers(0, 12), min_size=1, max_size=8, unique=True))
    rows = n * len(gids)
    return {
        "global_id": np.repeat(gids, n),
        "accuracy": np.array(draw(st.lists(st.sampled_from([0.0, 1.0]), min_size=rows, max_size=rows))),
        "entropies": np.array(draw(st.lists(st.floats(0, 3), min_size=rows, max_size=rows))),
        "high_entropy_token_num": np.array(draw(st.lists(st.integers(0, 60), min_size=rows, max_size=rows))),
    }


def tracker_of(**changed):
    """A tracker with the published settings but for these."""
    return DifficultyTracker(DifficultySettings(**{"target_mode": "batch"} | changed))


def bucket_batch(bucket, counts):
    accuracy = {"easy": 1.0, "medium": 0.5, "hard": 0.0}[bucket]
    rows = len(counts)
    return ["g"] * rows, [accuracy] * rows, [1.0] * rows, counts


def update(tracker, global_id, accuracy, entropies, high_entropy_token_num):
    """Give a tracker a batch."""
    measured = {"accuracy": accuracy, "entropies": entropies, "high_entropy_token_num": high_entropy_token_num}
    tracker.update_difficulty_and_skip_gid_set(DataProto.from_dict(non_tensors={"global_id": global_id} | measured))


@settings(deadline=None)
@given(st.integers(1, 400), st.data())
def test_buckets_are_exact_for_k_of_n(n, data):
    k = data.draw(st.integers(0, n))
    expected = "easy" if 3 * k >= 2 * n else "medium" if 3 * k >= n else "hard"
    assert difficulty_bucket(k / n) == expected


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.nan])
def test_an_accuracy_outside_the_unit_interval_is_an_error(bad):
    with pytest.raises(ValueError, match="accuracy"):
        difficulty_bucket(bad)


def test_shuffled_difficulties_say_nothing_of_the_prompts():
    gids = [f"p{number}" for number in range(600)]
    accuracy = [1.0] * 300 + [0.0] * 300
    trackers = [DifficultyTracker(shuffle_seed=seed) for seed in (0, 1)]
    for tracker in trackers:
        update(tracker, gids, accuracy, [1.0] * 600, [2] * 300 + [4] * 300)
    easy = [sum(tracker.difficulty_dict_train[gid] == "easy" for gid in gids[:300]) for tracker in trackers]
    assert all(110 < count < 190 for count in easy)  # 150 by chance; 300 of their own
    assert trackers[0].difficulty_dict_train != trackers[1].difficulty_dict_train
    assert trackers[0].target_high_entropy_token_num_dict == {"easy": 3, "hard": 3}
    assert sorted(trackers[0].difficulty_dict_train.values()) == ["easy"] * 300 + ["hard"] * 300


@pytest.mark.parametrize("shuffle_seed", [None, 3])
@quick
@given(st.lists(batch(), min_size=1, max_size=4), st.randoms(use_true_random=False), st.sampled_from(["batch", "ema"]))
def test_row_order_does_not_matter(shuffle_seed, batches, random, mode):
    one, other = (DifficultyTracker(DifficultySettings(target_mode=mode), shuffle_seed) for _ in range(2))
    for rows in batches:
        update(one, **rows)
        order = list(range(len(rows["global_id"])))
        random.shuffle(order)
        update(other, **{name: column[order] for name, column in rows.items()})
    assert one.difficulty_dict_train == other.difficulty_dict_train
    assert one.metrics() == other.metrics()


@quick
@given(st.lists(batch(), min_size=1, max_size=5), st.sampled_from(["batch", "previous", "ema"]))
def test_absent_buckets_are_untouched_and_alpha_stays_in_bounds(batches, mode):
    tracker = tracker_of(target_mode=mode, alpha_lr=1.0, alpha_min=0.2, alpha_max=1.4)
    for rows in batches:
        before_alpha = dict(tracker.alpha_entropy_dict)
        before_target = dict(tracker.target_high_entropy_token_num_dict)
        update(tracker, **rows)
        shown = {tracker.difficulty_dict_train[gid] for gid in rows["global_id"].tolist()}
        for bucket in set(BUCKETS) - shown:
            assert tracker.alpha_entropy_dict[bucket] == before_alpha[bucket]
            assert tracker.target_high_entropy_token_num_dict.get(bucket) == before_target.get(bucket)
        assert all(0.2 <= alpha <= 1.4 for alpha in tracker.alpha_entropy_dict.values())
        assert sum(value for name, value in tracker.metrics().items() if name.endswith("/count")) == len(
            set(rows["global_id"].tolist())
        )


@pytest.mark.parametrize(("bucket", "sign"), [("easy", 1), ("medium", 1), ("hard", -1)])
@pytest.mark.parametrize("mode", ["previous", "ema"])
def test_alpha_adapts_when_the_target_is_not_taken_from_the_same_batch(bucket, sign, mode):
    """In the published code δ is a rounding residue: counts rise from 10 to 30 and alpha does not move."""
    published, ours = DifficultyTracker(), tracker_of(target_mode=mode)
    for mean in (10, 20, 30):
        update(published, *bucket_batch(bucket, [mean, mean]))
        update(ours, *bucket_batch(bucket, [mean, mean]))
    assert published.alpha_entropy_dict[bucket] == 0.5
    assert sign * (ours.alpha_entropy_dict[bucket] - 0.5) >= 0.5


def test_an_ema_target_follows_slowly_and_is_not_rounded():
    tracker = tracker_of(target_mode="ema", target_ema=0.1)
    update(tracker, *bucket_batch("easy", [10, 11]))
    assert tracker.target_high_entropy_token_num_dict == {"easy": 10}
    update(tracker, *bucket_batch("easy", [13, 13]))
    assert tracker.target_high_entropy_token_num_dict["easy"] == pytest.approx(10.3)
    assert tracker.alpha_entropy_dict["easy"] == pytest.approx(0.5 + 0.05 * 0.5 + 0.05 * 3)


def test_the_skip_set_takes_solved_prompts_of_low_entropy():
    rows = (["a", "a", "b", "b", "c", "c"], [1, 1, 1, 1, 1, 0], [0.1, 0.2, 0.9, 0.9, 0.0, 0.0], [1] * 6)
    off, on = DifficultyTracker(), tracker_of(drop_allpass_entropy_threshold=0.2)
    update(off, *rows)
    update(on, *rows)
    assert off.skip_gid_set == set()
    assert on.skip_gid_set == {"a"}


def test_annotate_writes_each_rows_bucket_values():
    tracker = tracker_of(alpha_init={"easy": 0.1, "medium": 0.2, "hard": 0.3})
    data = DataProto.from_dict(
        non_tensors={
            "global_id": [7, 7, "x", "x"],
            "accuracy": [1.0, 1.0, 0.0, 0.0],
            "entropies": [1.0] * 4,
            "high_entropy_token_num": [4, 6, 20, 20],
        }
    )
    tracker.update_difficulty_and_skip_gid_set(data)
    tracker.annotate(data)
    assert data.non_tensor_batch["difficulty"].tolist() == ["easy", "easy", "hard", "hard"]
    assert data.non_tensor_batch["target_high_entropy_token_num"].tolist() == [5, 5, 20, 20]
    assert data.non_tensor_batch["alpha_entropy"].tolist() == [0.1, 0.1, 0.3, 0.3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracy": [None]}, "row 0: accuracy is nan"),
        ({"accuracy": [math.nan]}, "accuracy"),
        ({"high_entropy_token_num": [-1]}, "high_entropy_token_num"),
        ({"entropies": [1.0, 2.0]}, "entropies"),
    ],
)
def test_bad_columns_are_named(change, message):
    columns = {"global_id": ["a"], "accuracy": [1.0], "entropies": [1.0], "high_entropy_token_num": [3]} | change
    with pytest.raises(ValueError, match=message):
        update(DifficultyTracker(), **{name: np.array(column) for name, column in columns.items()})


def test_degenerate_inputs():
    tracker = DifficultyTracker()
    update(tracker, np.array([]), np.array([]), np.array([]), np.array([]))
    assert tracker.difficulty_dict_train == {}
    with pytest.raises(ValueError, match="simple"):
        tracker_of(alpha_init={"easy": 1.0, "medium": 1.0, "simple": 1.0})
    with pytest.raises(ValueError, match="target_mode"):
        tracker_of(target_mode="median")
    with pytest.raises(ValueError, match="'simple'"):
        bucket_index(["easy", "simple"])
    with pytest.raises(ValueError, match="difficulty state must have the keys"):
        tracker.load_state_dict(tracker.state_dict() | {"extra": 1})
    with pytest.raises(ValueError, match="'accuracy' is missing"):
        tracker.update_difficulty_and_skip_gid_set(DataProto.from_dict(non_tensors={"global_id": ["a"]}))
