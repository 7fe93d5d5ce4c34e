"""A run whose metrics pass their bounds warns, pauses, or goes back and on as a fork."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ares.config import ConfigError, WatchConfig, load
from ares.history import family
from ares.runs import Run
from ares.store import Fork, RunStore
from flows.watch import Trip, find_trips, rewind
from tests.ares.store_builders import chain, commit
from tests.short_runs import SMALL, ares, assert_same_commits, told, train

LIMIT = {"limit": 0.2, "steps": 2}


def trips(values: list[float | None], **settings: object) -> list[tuple[str, int]]:
    """Action and sound step of what tripped after each step, whose KL is given."""
    config = WatchConfig.model_validate({"kl_above": LIMIT | settings, "remedies": [{"learner.lr": 1e-5}]})
    commits = [
        commit(step, None, metrics={} if value is None else {"critic/kl": value, "filter/kept_share": 1.0})
        for step, value in enumerate(values)
    ]
    found = [find_trips(config, commits[: step + 1]) for step in range(len(commits))]
    return [(trip.action, trip.sound) for each in found for trip in each]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.1, 0.2, 0.2], []),
        ([0.0, 0.3, 0.1, 0.3], []),
        ([0.0, 0.3, None, 0.3], []),  # a step that did not measure it was not beyond it
        ([0.0, 0.0, 0.0, 0.3, 0.3], [("warn", 0)]),
        ([0.0] * 8 + [0.3, 0.3, 0.3, 0.3], [("warn", 5)]),  # the last within it was 7; margin 2
        ([0.0] * 8 + [0.3, 0.3, 0.0, 0.3, 0.3], [("warn", 5), ("warn", 8)]),
    ],
)
def test_a_wire_trips_once_in_each_excursion(values: list[float | None], expected: list[tuple[str, int]]) -> None:
    assert trips(values) == expected


def test_without_a_remedy_left_a_rewind_is_a_pause() -> None:
    assert trips([0.0, 0.3, 0.3], action="rewind") == [("rewind", 0)]
    config = WatchConfig.model_validate({"kept_below": {"limit": 0.1, "action": "rewind"}})
    (trip,) = find_trips(config, [commit(4, None, metrics={"filter/kept_share": 0.05})])
    assert (trip.action, trip.why) == ("pause", "step 4: filter/kept_share 0.05 is below 0.1")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["watch.remedies=[{learner.rate: 1}]"], r"watch\.remedies: learner\.rate is unknown"),
        (["watch.remedies=[{learner.lr: 7}]"], r"watch\.remedies: learner\.lr: .*less than or equal to 1"),
        (["watch.kl_above={limit: 1, action: rewind}", "rollout.max_staleness=1"], r"max_staleness cannot be forked"),
        (["watch.kl_above.action=stop"], r"watch\.kl_above\.action"),
        # The policy after the last step within the limit is the one that the next step found beyond it.
        (["watch.margin=0"], r"watch\.margin must be at least 1"),
    ],
)
def test_what_could_not_be_done_is_refused_before_the_run(settings: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load("tiny-math", settings)


def test_a_rewind_that_no_fork_could_be_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.n: 4 → 2"):
        Run.check(load("tiny-math", ["watch.remedies=[{bootstrap.n: 2}]"]), "first", tmp_path)


def test_a_rewind_goes_on_as_its_own_fork_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr("flows.watch.fork", lambda source, at, phase, changes, name, runs, why: made.append(name))
    store, trip = RunStore(tmp_path / "first"), Trip("entropy_below", "rewind", "step 2: low", 0)
    chain(store, 2)
    run: Any = SimpleNamespace(store=store, config=load("tiny-math", [REMEDY]), fork=None)
    its_own = Fork(run="first", at=0, phase=None, version=0, commit=str(store.digest(0)), checkpoint=None, why="low")
    for fork, calls in ((its_own, 0), (its_own.model_copy(update={"commit": "old"}), 1)):  # which would be refused
        RunStore(tmp_path / "first-rewind-1").write_run({"fork": fork.model_dump(mode="json")})
        assert rewind(run, trip) == "first-rewind-1"
        assert made == ["first-rewind-1"] * calls


TRIPS_AT_2 = ["train.steps=3", "rollout.prompts=2", "bootstrap.max_prompts=3", "validation.max_prompts=3",
              "watch.entropy_below={limit: 9, steps: 2, action: rewind}", "watch.margin=1",
              "watch.truncated_above={limit: -1, steps: 3}", "watch.unscored_above={limit: -1, steps: 3}"]  # fmt: skip
"""Every entropy is below 9: steps 1 and 2, and of a fork after the bootstrap the same again. Its last step trips two
wires more."""
REMEDY = "watch.remedies=[{learner.lr: 1.0e-4}]"


@pytest.fixture(scope="module")
def rewound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is rewound once, and paused when it trips again."""
    runs = tmp_path_factory.mktemp("rewound")
    with pytest.raises(pytest.fail.Exception, match=r"first-rewind-1 is paused\. Step 2: entropy/mean .* is below 9"):
        train(runs, "first", *TRIPS_AT_2, REMEDY)
    return runs


def test_a_rewound_run_goes_on_as_a_fork_with_the_remedy_and_the_lineage_says_why(rewound: Path) -> None:
    oldest = family("first-rewind-1", rewound)
    assert (oldest.name, oldest.ended.split(",")[0]) == ("first", "rewound at step 2 of 3")
    (child,) = oldest.children
    assert child.fork is not None
    assert (child.fork.at, child.settings) == (0, ["learner.lr: 0.0004 → 0.0001"])
    assert child.fork.why.startswith("step 2: entropy/mean 0.")
    assert child.ended.startswith("paused at step 2 of 3")
    assert [each.partition(":")[0] for each in child.events] == ["paused after step 2"]


def test_whoever_resumes_a_paused_run_has_looked_and_it_goes_on(rewound: Path) -> None:
    # By the name of the run that was rewound, with a wire that now says something else.
    settings = [each.replace("limit: 9", "limit: 8") for each in TRIPS_AT_2]
    ended = ares(rewound, "train", "tiny-math", *SMALL, *settings, REMEDY, "--run", "first")
    assert ended.returncode == 0, ended.stderr
    for metric in ("response_length/clip_ratio", "reward/unscored"):
        assert f"first-rewind-1: step 3: {metric} 0 is above -1 for 3 steps" in ended.stderr
    assert RunStore(rewound / "first").committed_steps() == [0, 1, 2]
    assert RunStore(rewound / "first-rewind-1").committed_steps() == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", ["1:update:after", "2:commit:after"])
def test_a_run_that_was_killed_is_rewound_to_the_same_bits(kill_at: str, rewound: Path, tmp_path: Path) -> None:
    assert train(tmp_path, "first", *TRIPS_AT_2, REMEDY, kill_at=kill_at) == -9
    for runs in (tmp_path, tmp_path, rewound):  # after its pause; that of the fixture may have been resumed already
        ended = told(runs, "resume", "first", "--plain")
    assert ended.returncode == 0, ended.stderr
    assert_same_commits(rewound, "first", "first", tmp_path)
    assert_same_commits(rewound, "first-rewind-1", "first-rewind-1", tmp_path)


@pytest.mark.slow
def test_with_ray_and_prefect_a_run_is_rewound_to_the_same_bits_and_paused(rewound: Path, tmp_path: Path) -> None:
    settings = [*SMALL, *TRIPS_AT_2, REMEDY]
    ended = ares(tmp_path, "train", "tiny-math", *settings, "--run", "first", whole=True)
    assert (ended.returncode, "first-rewind-1 is paused. Step 2" in ended.stderr) == (2, True), ended.stderr
    assert_same_commits(rewound, "first", "first", tmp_path)
    ended = ares(tmp_path, "resume", "first", whole=True)
    assert ended.returncode == 0, ended.stderr
    assert RunStore(tmp_path / "first-rewind-1").committed_steps() == [0, 1, 2, 3]


COLLAPSES = ["learner.lr=3e-3", "train.steps=30", "validation.every=5", "validation.max_prompts=100"]


@pytest.mark.slow
def test_a_run_that_collapses_is_saved_without_a_hand(tmp_path: Path) -> None:
    wire = ["watch.kl_above={limit: 0.2, steps: 2, action: rewind}", "watch.remedies=[{learner.lr: 4.0e-4}]"]
    for name, settings in (("lost", COLLAPSES), ("saved", [*COLLAPSES, *wire])):
        ended = ares(tmp_path, "train", "tiny-math", *settings, "--run", name)
        assert ended.returncode == 0, ended.stderr
    last = {name: RunStore(tmp_path / name).last_commit() for name in ("lost", "saved", "saved-rewind-1")}
    accuracy = {name: commit.metrics["val/accuracy"] for name, commit in last.items() if commit is not None
                and "val/accuracy" in commit.metrics}  # fmt: skip
    assert accuracy["lost"] < 0.2
    assert accuracy["saved-rewind-1"] > 0.6
