"""Runs with an environment: token-exact rows, killed at every turn, one environment that fails, wrong input."""

import json
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.short_runs import ares, assert_same_commits, commits, samples, told

GAME = '''
import random
from ares.environments import Reply

class Digits:
    """Three rounds: name the digit. It breaks on seed 2."""

    def __init__(self, rounds: int = 3) -> None:
        self.rounds = rounds

    def reset(self, row, seed):
        self.random, self.asked, self.broken = random.Random(seed), 0, row["seed"] == 2
        return self._ask()

    def _ask(self):
        self.digit = self.random.randrange(10)
        return f"{self.digit}+0="

    def step(self, text):
        if self.broken and self.asked:
            raise RuntimeError("no more digits")
        self.asked += 1
        right = float(str(self.digit) in text)
        done = self.asked == self.rounds
        return Reply("" if done else self._ask(), reward=right, done=done, metrics={"named": right})

class Silent(Digits):
    def reset(self, row, seed):
        super().reset(row, seed)

class Drawn(Digits):
    def reset(self, row, seed):
        return [{"type": "image", "image": "x.png"}]
'''
SETTINGS = [
    "data.train=episodes?size=8", "data.validation=episodes?size=4", "reward.kind=environment", "reward.accuracy=2.0",
    "environment.reward=sum", "environment.max_turns=3", "rollout.max_response_length=12", "rollout.prompts=4",
    "rollout.n=2", "rollout.shard_prompts=2", "learner.global_batch_prompts=4", "bootstrap.n=2", "validation.n=1",
    "algorithm.filter.enabled=false", "train.steps=2", "validation.every=2", "train.checkpoint_every=2",
    "data.max_prompt_length=64", "environment.processes=1",
]  # fmt: skip
FEW = ["1:turn 0 2:after"]
EVERY = [f"1:turn 0 {turn}:{moment}" for turn in (1, 2, 3) for moment in ("before", "after")]
EVERY = ["0:turn bootstrap 0 2:before", "1:turn:inside", *EVERY]  # in the order of the run, which commits steps
MORE = ["1:rollout:inside", "1:score:before", "2:turn 0 3:after", "2:turn validation 1 2:before"]


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("game") / "digits.py"
    path.write_text(GAME)
    return f"environment={{kind: '{path}:Digits'}}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, game: str) -> Path:
    """A directory of runs with one, `whole`, that nobody killed and whose environments are in two processes."""
    runs = tmp_path_factory.mktemp("episodes")
    assert train(runs, "whole", game, "environment.processes=2") == 0
    return runs


def train(runs: Path, name: str, game: str, *settings: str, kill_at: str | None = None) -> int:
    ended = ares(runs, "train", "tiny-math", game, *SETTINGS, *settings, "--run", name, kill_at=kill_at)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stdout[-2000:] + ended.stderr[-3000:]
    return ended.returncode


@pytest.mark.parametrize(
    "points",
    [pytest.param(FEW, id="few"), pytest.param(EVERY + MORE, id="every", marks=pytest.mark.slow)],
)
def test_killed_between_turns_it_ends_bit_identical(whole: Path, tmp_path: Path, game: str, points: list[str]) -> None:
    for point in points:
        assert train(tmp_path, "killed", game, kill_at=point) == -signal.SIGKILL, point
    assert train(tmp_path, "killed", game) == 0
    assert_same_commits(whole, "whole", "killed", tmp_path)


@pytest.mark.slow
def test_a_run_of_episodes_that_are_drawn_ahead_is_killed_and_ends_in_the_same_bits(tmp_path: Path, game: str) -> None:
    settings = ["rollout.max_staleness=1", "algorithm.policy.importance_cap=2"]
    assert train(tmp_path, "whole", game, *settings) == 0
    for point in FEW:
        assert train(tmp_path, "killed", game, *settings, kill_at=point) == -signal.SIGKILL, point
    assert train(tmp_path, "killed", game, *settings) == 0
    assert_same_commits(tmp_path, "whole", "killed")


def test_a_failed_environment_has_no_score_and_episodes_are_counted(whole: Path) -> None:
    last = commits(whole, "whole")[-1]
    assert last.metrics["episode/turns"] == pytest.approx(3, abs=0.5)
    assert 0 < last.metrics["episode/observations_share"] < 1
    assert "val/episode/turns" in last.metrics
    rows = samples(whole, "whole", 0)
    broken = rows["episode_error"] != ""
    assert set(rows.loc[broken, "id"]) == {"2"}
    assert rows.loc[broken, "episode_error"].str.contains("no more digits").all()
    assert rows.loc[broken, "accuracy"].isna().all()  # no score, and not 0
    assert rows.loc[~broken, "turns"].eq(3).all()
    assert [len(json.loads(each)) for each in rows["transcript"]] == rows["turns"].tolist()


def test_what_was_sampled_is_a_prefix_of_what_is_asked_next_and_is_measured_alike(whole: Path) -> None:
    folder = whole / "whole" / "steps" / "000001"
    episodes = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("rollout-rollout-*.parquet"))])
    turns = pd.concat([pd.read_parquet(path) for path in sorted(folder.glob("turn-rollout-*.parquet"))])
    for row in episodes.to_dict("records"):
        parts = turns[(turns["slot"] == row["slot"]) & (turns["sample"] == row["sample"])]
        for name in ("token_ids", "log_probs", "sampled"):
            assert row[name].tolist() == np.concatenate(parts[name].tolist()).tolist()
    # The learner, which reads whole episodes at once, has the engine's log-probs of every turn.
    assert commits(whole, "whole")[-1].metrics["mismatch/logprob_diff_max"] < 1e-4


@pytest.mark.slow
def test_a_run_whose_environments_failed_plays_them_again_once_they_work(tmp_path: Path) -> None:
    down, path = tmp_path / "down", tmp_path / "digits.py"
    never_broken = GAME.replace('row["seed"] == 2', "False")
    path.write_text(never_broken.replace("        right =", f"        open({str(down)!r}).close()\n        right ="))
    game = f"environment={{kind: '{path}:Digits'}}"
    command = ["train", "tiny-math", game, *SETTINGS, "train.steps=1", "--run", "run", "--plain"]
    ended = told(tmp_path, *command)
    assert ended.returncode == 2
    assert "environments failed" in ended.stderr
    assert "FileNotFoundError" in ended.stderr
    down.touch()
    assert told(tmp_path, *command).returncode == 0
    assert commits(tmp_path, "run")[-1].metrics["episode/errors"] == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (["environment.kind=tools"], "environment.tools"),
        (["rollout.second_turn.enabled=true", "reward.kind=code"], "second turns"),
        (["algorithm.advantage.estimator=reinforce_plus_plus"], "reinforce_plus_plus"),
        (["data.train=episodes?size=16&sides=6"], "sides"),
        (["environment.kind=GAME:Silent"], "episodes?size=4:1: the row has no 'prompt', and its environment's reset"),
        (
            ["environment.kind=GAME:Drawn"],
            "row '1000000', reset: TypeError: an observation is text, not a value of type list",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(tmp_path: Path, game: str, settings: list[str], named: str) -> None:
    path = game.partition("'")[2].partition(":")[0]
    settings = [each.replace("GAME", path) for each in settings]
    ended = told(tmp_path, "train", "tiny-math", game, *SETTINGS, *settings, "--run", "run", "--plain")
    assert ended.returncode == 2
    assert named.replace("GAME", path) in ended.stderr
    assert "Traceback" not in ended.stderr


AGENT = '''
import json, os, random, urllib.request

def name_digits(row, seed):
    """Three rounds: name the digit."""
    messages, right = [], 0.0
    for _ in range(3):
        digit = random.randrange(10)
        messages.append({"role": "user", "content": f"{digit}+0="})
        headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
        asked = json.dumps({"messages": messages}).encode()
        request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", asked, headers)
        messages.append(json.load(urllib.request.urlopen(request))["choices"][0]["message"])
        right += str(digit) in messages[-1]["content"]
    return right
'''


@pytest.mark.slow
def test_a_run_of_agents_is_killed_between_their_requests_and_ends_in_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    agent = f"environment={{kind: '{path}:name_digits'}}"
    assert train(tmp_path, "whole", agent) == 0
    for point in ["0:turn bootstrap 0 2:before", "1:turn 0 2:after", "1:turn 0 3:before", "2:turn 0 2:after"]:
        assert train(tmp_path, "killed", agent, kill_at=point) == -signal.SIGKILL, point
    assert train(tmp_path, "killed", agent) == 0
    assert_same_commits(tmp_path, "whole", "killed")
    for step in range(3):
        rows = samples(tmp_path, "whole", step)
        assert rows["episode_error"].eq("").all()
        assert rows["turns"].eq(3).all()
    assert commits(tmp_path, "whole")[-1].metrics["mismatch/logprob_diff_max"] < 1e-4
