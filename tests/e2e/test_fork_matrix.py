"""Forks of every tiny profile after every phase with every kind of change: refused at the fork, or they finish.

The runs are real but for Ray: learner and engine work in this process. Not covered: which change is refused where, and
by what message (tests/ares/runs/test_phase_settings.py).
"""

from pathlib import Path
from typing import Any

import pytest

from ares.config.profiles import load, override
from ares.config.strict import ConfigError
from ares.runs.lineage import PHASES, fork
from ares.runs.phase_settings import check_fork
from ares.step.state import RunState
from ares.store import RunStore, read_config
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL

NO_LEARNER_PASS = ["algorithm.aepo.enabled=false", "algorithm.kl.placement=none",
                   "algorithm.policy.old_log_probs=engine"]  # fmt: skip
PROFILES = {
    "tiny-math": ["rollout.n=4"],
    "tiny-math without the pass before an update": ["rollout.n=4", *NO_LEARNER_PASS],
    "tiny-code": ["rollout.n=4"],
    "tiny-code-feedback": ["rollout.n=4"],
    "tiny-vision": ["rollout.n=4"],
    "tiny-diffusion": ["learner.global_batch_prompts=4"],
    "tiny-diffusion-aepo": ["learner.global_batch_prompts=4"],
}
CHANGES = [
    "model.lora={rank: 4}", "model.train_vision=false", "model.gradient_checkpointing=true",
    "rollout.n=3", "rollout.temperature=0.9", "rollout.max_response_length=60", "rollout.threads=2",
    "rollout.second_turn.credit=mean", "rollout.second_turn.enabled=false",
    "reward.timeout=6", "reward.code.cpu_seconds=3", "reward.code.accuracy=pass_ratio", "reward.code.design=sparse",
    "reward.code.design=dense_weighted", "reward.code.format_weight=0.3",
    "algorithm.filter.enabled=false", "algorithm.filter.enabled=true", "algorithm.filter.high=0.9",
    "algorithm.filter.key=accuracy", "algorithm.overlong.mask_truncated=true", "algorithm.overlong.soft_punish_cache=4",
    "algorithm.kl.placement=none", "algorithm.kl.placement=reward", "algorithm.kl.placement=loss",
    "algorithm.kl.penalty=full", "algorithm.kl.penalty=mse", "algorithm.kl.coef=0.02", "algorithm.kl.kind=fixed",
    "algorithm.kl.kind=adaptive", "algorithm.kl.kind=bucket_beta", "algorithm.kl.reference_sync=1",
    "algorithm.advantage.estimator=gae", "algorithm.advantage.estimator=remax", "algorithm.advantage.estimator=rloo",
    "algorithm.advantage.estimator=reinforce_plus_plus",
    "algorithm.policy.old_log_probs=learner", "algorithm.policy.epochs=3", "algorithm.policy.importance_cap=1.5",
    "algorithm.policy.clip_high=0.4", "algorithm.aepo.enabled=false", "algorithm.entropy.window=3",
    "algorithm.difficulty.alpha_lr=0.1", "algorithm.difficulty.alpha_init=0.1",
    "learner.lr=0.001", "learner.micro_batch_tokens=300", "validation.n=1", "train.seed=1", "bootstrap.n=3",
]  # fmt: skip
TRAIN_SIZE = 10
"""They do not affect whether controllers fit."""
PLACES = [(1, None), *((at, phase) for at in (1, 2) for phase in PHASES)]


@pytest.mark.parametrize("profile", ["tiny-math", "tiny-code-feedback", "tiny-diffusion-aepo"])
def test_what_is_refused_after_a_phase_is_refused_after_each_later_one(profile: str) -> None:
    before = load(profile.split()[0], [*SMALL, *PROFILES[profile]])
    refused_somewhere = 0
    for change in CHANGES:
        try:
            after = override(before, [change])
        except ConfigError:
            continue  # no run can have it
        refused = [_is_refused(before, after, phase, change) for phase in (None, *PHASES)]  # from one checkpoint
        assert refused == sorted(refused), change
        refused_somewhere += refused[-1]
    assert refused_somewhere > 15


def _is_refused(before: Any, after: Any, phase: str | None, change: str) -> bool:
    try:
        check_fork(before, after, {}, 1 if phase is None else 2, phase)
    except ConfigError as refusal:
        return change.partition("=")[0] in str(refusal)
    return False


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    run_in_this_process(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_every_fork_is_refused_at_once_or_ends(profile: str, folder: Path) -> None:
    """A fork takes as many of the changes that are not refused as fit together; the next one takes the rest."""
    small = ["rollout.prompts=4", "learner.global_batch_prompts=2", "validation.max_prompts=4", "train.steps=2",
             "reward.code.workers=1", "train.checkpoint_every=1"]  # fmt: skip
    parent = train_here(profile.split()[0], [*SMALL, *small, *PROFILES[profile]], "parent")
    for at, phase in PLACES:
        left = [change for change in CHANGES if is_possible(parent, [change], at, phase)]
        assert 0 < len(left) < len(CHANGES)
        while left:
            taken: list[str] = []
            for change in left:
                again = change.partition("=")[0] in [each.partition("=")[0] for each in taken]
                if not again and is_possible(parent, [*taken, change], at, phase):
                    taken.append(change)
            left = [change for change in left if change not in taken]
            name = f"fork-{at}-{phase}-{len(left)}"
            fork("parent", at, phase, taken, name, folder)
            try:
                made = train_here(None, [], name)
            except Exception as error:
                raise AssertionError(f"{profile}: --at {at} --phase {phase} {' '.join(taken)}") from error
            for step in range(at + (phase is None)):
                assert made.digest(step) == parent.digest(step)
            assert made.committed_steps() == [0, 1, 2]


def is_possible(parent: RunStore, changes: list[str], at: int, phase: str | None) -> bool:
    """Whether such settings are valid, and a fork accepts them."""
    before = read_config(parent)
    try:
        after = override(before, changes)
        check_fork(before, after, {}, at, phase)
        commit = parent.read_commit(at - (phase is not None))
        RunState.restored(after, TRAIN_SIZE, commit.state)
    except (ConfigError, TypeError, ValueError, KeyError):
        return False
    return True
