"""A run whose environment is one of verifiers 0.4, which needs a Python of its own: VERIFIERS_PYTHON names it.

python -m venv v && v/bin/pip install verifiers==0.4.0
VERIFIERS_PYTHON=v/bin/python pytest tests/e2e/test_verified.py
"""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.short_runs import ares, assert_same_commits, samples

PYTHON = os.environ.get("VERIFIERS_PYTHON", "")
TASKSET = '''
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str

class Task(vf.Task[Data, vf.State, vf.TaskConfig]):
    pass

class Sums(vf.Taskset[Task, vf.TasksetConfig]):
    def load(self):
        for number in range(100):
            one, other = number % 10, number // 10
            data = Data(name=f"{number}", prompt=f"{one}+{other}=?", answer=str(one + other))
            yield Task(data, self.config.task)

class Config(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()

class Twice(vf.Env[Config]):
    """The sum is asked for twice."""

    async def run(self, task, agents):
        async with agents.player.interaction(task) as talk:
            said = [(await talk.turn()).last_reply, (await talk.turn("Again: " + task.data.prompt)).last_reply]
        talk.trace.record_reward("right", sum(task.data.answer in each for each in said) / 2, 1.0)

__all__ = ["Sums", "Twice"]
'''
SETTINGS = [
    "data.train=episodes?size=16", "data.validation=episodes?size=4&seed=90", "reward.kind=environment",
    "reward.accuracy=1.0",
    "rollout.max_response_length=12", "rollout.prompts=4", "rollout.n=3", "rollout.shard_prompts=2",
    "learner.global_batch_prompts=4", "bootstrap.n=2", "validation.n=1", "algorithm.filter.enabled=false",
    "train.steps=3", "validation.every=3", "train.checkpoint_every=3", "data.max_prompt_length=64",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not PYTHON, reason="VERIFIERS_PYTHON names a Python that has verifiers 0.4")
def test_an_environment_of_verifiers_trains_and_its_episodes_are_rebuilt_after_a_kill(tmp_path: Path) -> None:
    (tmp_path / "twice.py").write_text(TASKSET)
    verifiers = {"python": PYTHON, "folder": str(tmp_path), "environment": {"taskset": {"id": "twice"}}}
    section = {"kind": "examples/extensions/verified.py:Verified", "settings": verifiers, "max_turns": 3, "timeout": 60}
    command = ["train", "tiny-math", f"environment={json.dumps(section)}", *SETTINGS, "--run"]
    whole = ares(tmp_path, *command, "whole")
    assert whole.returncode == 0, whole.stderr[-3000:]
    assert ares(tmp_path, *command, "killed", kill_at="2:turn 0 2:before").returncode == -signal.SIGKILL
    assert ares(tmp_path, *command, "killed").returncode == 0
    assert_same_commits(tmp_path, "whole", "killed")
    for step in range(4):
        rows = samples(tmp_path, "whole", step)
        assert rows["episode_error"].eq("").all()
        assert rows["turns"].eq(2).all()
