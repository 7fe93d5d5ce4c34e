"""The files of examples/extensions, which docs/extending.md explains: named by a configuration, each does as described.

Not covered: a whole run with it.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from algorithms.estimators import RewardedBatch
from algorithms.kl import BatchKL
from algorithms.losses import PolicyTokens, policy_loss
from algorithms.protocol import DataProto
from ares.config import (
    ENGINES,
    ESTIMATORS,
    KL_CONTROLLERS,
    POLICY_LOSSES,
    REWARD_DESIGNS,
    TRACKERS,
    Config,
    extension_files,
    load,
)
from ares.engines import SamplingSettings
from ares.environments import Reply, kinds
from ares.grading import load_grader
from ares.step import JudgedPrograms
from examples import extensions
from rewards.shaping import CodeOutcomes
from tests.ares.builders import MODEL, engine, requests, tokenizer

FOLDER = Path(extensions.__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "extending.md"
GRADED = pd.DataFrame({
    "id": ["a", "a"], "slot": [0, 0], "sample": [0, 1], "prompt": ["1+1", "1+1"], "response": ["it is 2", "3"],
    "answer": ["2", "2"],
})  # fmt: skip


def configured(setting: str, reference: str, *overrides: str) -> Config:
    config = load("tiny-math", [f"{setting}=examples/extensions/{reference}", *overrides])
    assert list(extension_files(config).values()) == [setting]
    return config


def test_every_example_is_on_the_page_and_tested() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == set(re.findall(r'"(\w+)\.py:\w+"', Path(__file__).read_text(encoding="utf-8")))
    assert files == set(re.findall(r"\(\.\./examples/extensions/(\w+)\.py\)", PAGE.read_text(encoding="utf-8")))


def test_the_estimator_ranks_within_a_group() -> None:
    section = configured("algorithm.advantage.estimator", "rank.py:GroupRank").algorithm.advantage
    assert section.within_group
    rewards = torch.tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 9.0]])
    seen = RewardedBatch(rewards, torch.ones(3, 2), np.array([0, 0, 1]), torch.ones(3, dtype=torch.bool), DataProto())
    assert ESTIMATORS.make(section).estimate(seen)[0].tolist() == [[0.5, 0.5], [-0.5, -0.5], [0.0, 0.0]]


def test_the_loss_keeps_a_gradient_where_the_ratio_is_clipped_and_ignores_padding() -> None:
    section = configured(
        "algorithm.policy.loss", "cispo.py:Cispo", "algorithm.policy.settings.limit=2"
    ).algorithm.policy
    log_probs = torch.tensor([[0.0, float("nan")], [-1.0, -2.0]], requires_grad=True)
    old = torch.tensor([[-3.0, float("nan")], [-1.0, -2.0]])
    tokens = PolicyTokens(old, log_probs, torch.ones(2, 2), torch.tensor([[1, 0], [1, 1]]))
    loss, metrics = policy_loss(POLICY_LOSSES.make(section), tokens)
    loss.backward()
    assert log_probs.grad is not None
    torch.testing.assert_close(log_probs.grad, torch.tensor([[-2.0, 0.0], [-1.0, -1.0]]) / 3)
    assert metrics["clipped"] == pytest.approx(1 / 3)


def test_the_controller_rises_and_a_resumed_one_continues() -> None:
    section = configured("algorithm.kl.kind", "warmup.py:Warmup", "algorithm.kl.settings.batches=4").algorithm.kl
    controller, resumed = KL_CONTROLLERS.make(section), KL_CONTROLLERS.make(section)
    controller.update(BatchKL(0.1, 2, {}))
    resumed.load_state_dict(json.loads(json.dumps(controller.state_dict())))
    assert resumed.coefficients(np.array(["easy", "hard"])).tolist() == [0.0025, 0.0025]
    assert resumed.metrics() == {"critic/kl_coef": 0.0025}


def test_the_grader_tells_how_near_an_answer_is() -> None:
    grader = load_grader(configured("reward.kind", "numbers.py:Nearest").reward)
    grader.start()
    assert grader.grade(GRADED)["accuracy"].tolist() == [1.0, 0.5]
    grader.close()


def test_the_design_rewards_the_square_of_the_share() -> None:
    section = configured("reward.code.design", "squared.py:PassedSquared").reward.code
    outcomes = CodeOutcomes(
        np.array(["accepted", "wrong_answer"], dtype=object), np.zeros(2, dtype=bool),
        [np.array([True, True]), np.array([True, False])], np.zeros(2, dtype=np.int64),
    )  # fmt: skip
    seen = JudgedPrograms(outcomes, pd.DataFrame(index=range(2)), None)
    assert REWARD_DESIGNS.make(section).reward(seen).tolist() == [1.0, 0.25]


def test_the_engine_answers_each_request_under_its_own_index() -> None:
    config = configured("rollout.engine", "sorted_engine.py:ShortestFirst", f"model.path={MODEL.resolve()}")
    made, reference = ENGINES.make(config.rollout, config, tokenizer()), engine()
    made.load_weights(0, dict(reference.model.named_parameters()))
    settings, asked = SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=6), requests(3)
    for mine, theirs in zip(made.generate(asked, settings), reference.generate(asked, settings), strict=True):
        assert mine.token_ids.tolist() == theirs.token_ids.tolist()


def test_the_game_keeps_the_longer_side() -> None:
    game = environment("guess.py:Guess", {"low": 20, "high": 23})
    replies = [game(text) for text in ("21", "thirty", "22", "23")]
    assert [(reply.observation, reply.reward, reply.done) for reply in replies] == [
        ("22 to 23", 0.0, False), ("22 to 23", 0.0, False), ("23 to 23", 0.0, False), ("", 1.0, True),
    ]  # fmt: skip


def test_a_class_of_trls_shape_is_rewarded_for_the_right_call() -> None:
    for expression, reward in (("3*4", 1.0), ("3*5", 0.0)):
        call = f'<tool_call>{{"name": "calculator", "arguments": {{"expression": "{expression}"}}}}</tool_call>'
        reply = environment("checked.py:Checked", {"answer": "12"})(call)
        assert (reply.observation, reply.reward) == ((str(eval(expression)),), reward)


def test_the_agent_asks_a_model_that_calls_its_tool() -> None:
    pytest.importorskip("openai", reason="pip install 'ares[judge]'")
    step = environment("agent.py:solve", {"prompt": "3*4=?", "answer": "12"})
    call = '<tool_call>{"name": "calculator", "arguments": {"expression": "3*4"}}</tool_call>'
    assert step(call) == Reply(("12",))
    assert step("\\boxed{12}") == Reply(reward=1.0, done=True)


def test_an_environment_of_verifiers_says_so_where_there_is_none() -> None:
    """tests/e2e/test_verified.py trains with one."""
    with pytest.raises(RuntimeError, match="the process of verifiers has ended"):
        environment("verified.py:Verified", {}, python=sys.executable, environment={})


def environment(reference: str, row: dict[str, Any], **settings: Any) -> Callable[[str], Reply]:
    """An episode of a row: what it replies to a response."""
    section = configured("environment", reference).environment
    assert section is not None
    made = kinds.load(section.kind, section.model_copy(update={"settings": settings}))()
    made.reset(row, 0)
    return made.step


def test_the_tracker_writes_what_is_committed(tmp_path: Path) -> None:
    config = configured("tracking.kind", "lines.py:Lines")
    commit = SimpleNamespace(step=0, metrics={"reward/mean": 0.5})
    store = SimpleNamespace(
        directory=tmp_path, committed_steps=lambda: [0], digest=str, read_commit=lambda step: commit
    )
    tracker = TRACKERS.make(config.tracking, config, store)
    tracker.catch_up()
    tracker.finish()
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"step": 0, "reward/mean": 0.5}
