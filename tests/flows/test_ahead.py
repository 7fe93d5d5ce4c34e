"""Steps whose first responses are drawn ahead (rollout.max_staleness): from which policy, and what a kill leaves.

Learner and engine work in this process; a kill is an error that nothing catches. Killed by the kernel, and with whole
responses: tests/e2e/test_parallel.py.
"""

import asyncio
import hashlib
import math
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from algorithms.keys import derive_seed
from ares.config import ConfigError, load
from ares.runs import fork, verify
from ares.runs.retention import prune
from ares.runs.run import Run
from ares.store import RunStore, read_config
from ares.workers import EngineService, LearnerService
from ares.workers.plain import InProcess, PlainWorkers
from tasks.phase import Phase
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL
from tests.short_runs import assert_same_commits

STEPS = 5
FEW = [*SMALL, f"train.steps={STEPS}", "train.checkpoint_every=2", "train.keep_checkpoints=1",
       "bootstrap.max_prompts=6", "validation.max_prompts=2", "validation.every=3"]  # fmt: skip
"""With filtering, so that a step draws more than was drawn ahead for it."""


class Killed(Exception):
    """In place of killing the process."""


class Watched:
    """The versions that engines sample from, by step, and the weights of each version wherever it was used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: dict[tuple[int, str], list[int]] = defaultdict(list)
        """Versions that the draws of a step and purpose ask for, in order."""
        self.weights: dict[int, set[str]] = defaultdict(set)
        self.drawn: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By the seed of a response: where each call for it began, and the version it was sampled from."""
        self.kill_at: tuple[int, str, str] | None = None
        self.is_dead = False
        call, load, update = Phase.__call__, EngineService.load_weights, LearnerService.update
        generate = EngineService.generate

        async def watched_call(phase: Phase[Any], step: Any, *inputs: Any, label: str = "") -> Any:
            if phase.name == "rollout":
                self.asked[step.number, inputs[0].purpose].append(inputs[0].version)
            self._die(step.number, phase.name, "before")
            result = await call(phase, step, *inputs, label=label)
            self._die(step.number, phase.name, "after")
            return result

        def watched_load(service: EngineService, version: int, weights: Any) -> None:
            self._met(version, weights)
            load(service, version, weights)

        def watched_update(service: LearnerService, *what: Any) -> Any:
            yield from update(service, *what)
            self._met(service.version(), service.weights())

        def watched_generate(service: EngineService, requests: Any, *more: Any) -> Any:
            for request in requests:
                self.drawn[request.seed].append((request.begun, service.version()))
            yield from generate(service, requests, *more)

        monkeypatch.setattr(Phase, "__call__", watched_call)
        monkeypatch.setattr(EngineService, "generate", watched_generate)
        monkeypatch.setattr(EngineService, "load_weights", watched_load)
        monkeypatch.setattr(LearnerService, "update", watched_update)

    def _met(self, version: int, weights: dict[str, Any]) -> None:
        whole = hashlib.sha256(b"".join(np.asarray(weights[name]).tobytes() for name in sorted(weights)))
        self.weights[version].add(whole.hexdigest())

    def _die(self, *where: Any) -> None:
        self.is_dead = self.is_dead or where == self.kill_at
        if self.is_dead:  # what else is under way ends with its next phase
            raise Killed


def trained(name: str, *settings: str) -> RunStore:
    return train_here("tiny-math", [*FEW, *settings], name)


def killed(watched: Watched, moments: list[tuple[int, str, str]], *settings: str) -> RunStore:
    for moment in moments:
        watched.kill_at = moment
        with pytest.raises(Killed):
            trained("killed", *settings)
        watched.kill_at, watched.is_dead = None, False
    return trained("killed", *settings)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    run_in_this_process(tmp_path, monkeypatch)
    return Watched(monkeypatch)


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunStore, Watched]:
    """The run `whole` with rollout.max_staleness=2, not to be changed, and what was seen of it."""
    with pytest.MonkeyPatch.context() as patch:
        run_in_this_process(tmp_path_factory.mktemp("stale"), patch)
        watched = Watched(patch)
        return trained("whole", "rollout.max_staleness=2"), watched


MOMENTS = [
    (1, "rollout", "after"), (1, "shape", "before"), (2, "update", "before"), (4, "rollout", "after"),
    (3, "experience", "before"), (3, "update", "after"), (4, "shape", "after"), (4, "checkpoint", "before"),
    (5, "score", "before"), (5, "update", "before"), (5, "checkpoint", "after"),
]  # fmt: skip
"""In an order in which they may come: step 4 is drawn during step 3, or before."""


def test_steps_sample_from_the_planned_policies(stale: tuple[RunStore, Watched]) -> None:
    whole, watched = stale
    for step in range(1, STEPS + 1):
        first, *others = watched.asked[step, "rollout"]
        assert first == max(step - 3, 0)
        assert set(others) <= {first, step - 1}  # a second shard; what is drawn besides
        commit = whole.read_commit(step)
        assert commit.metrics["rollout/staleness"] == step - 1 - first
        assert len(commit.state["planned"]) == 3
        assert (commit.metrics["mismatch/logprob_diff_mean"] > 1e-4) == (step > 1)
    evaluated = {step: set(asked) for (step, purpose), asked in watched.asked.items() if purpose == "validation"}
    assert evaluated == {step: {step} for step in (0, 3, 5)}
    assert not list((whole.directory / "steps").glob(f"{STEPS + 1:06d}"))
    assert sorted(watched.weights) == list(range(STEPS + 1))
    assert [len(met) for met in watched.weights.values()] == [1] * (STEPS + 1)


def parts_of(stale: int, parts: int) -> list[str]:
    return [f"rollout.max_staleness={stale}", f"rollout.parts={parts}", "rollout.max_response_length=36"]


def first_draw(store: RunStore, step: int) -> pd.DataFrame:
    shards = sorted((store.directory / store.step_path(step)).glob("rollout-rollout-*.parquet"))[:2]  # of 3 and 1
    return pd.concat(map(pd.read_parquet, shards), ignore_index=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stale", "parts", "moments"),
    [
        (2, 3, [MOMENTS[1], MOMENTS[3], MOMENTS[5]]),
        (1, 2, MOMENTS),
        (3, 4, [*MOMENTS[:3], *MOMENTS[4:]]),
    ],
)
def test_each_part_of_a_response_is_from_its_policy_and_a_killed_run_ends_bit_identical(
    stale: int, parts: int, moments: list[tuple[int, str, str]], watched: Watched
) -> None:
    settings, size = parts_of(stale, parts), 36 // parts
    whole = trained("whole", *settings)
    seen = corrected = 0
    for step in range(1, STEPS + 1):
        rows = first_draw(whole, step)
        assert len(rows) == 4 * 4
        versions = [max(step - 1 - stale + part, 0) for part in range(parts)]
        for row in rows.itertuples():
            drawn = math.ceil(len(row.token_ids) / size)
            expected = [(part * size, versions[part]) for part in range(drawn)]
            assert watched.drawn[derive_seed(0, "rollout", step, row.slot, row.id, row.sample)] == expected
            assert len(row.log_probs) == len(row.token_ids) == 36 or row.finish_reason == "stop"
            seen += drawn == parts
        metrics = whole.read_commit(step).metrics
        assert (metrics["mismatch/logprob_diff_mean"] > 1e-4) == (versions[0] < step - 1)
        corrected += versions[0] < step - 1
        under_way = [name for name in whole.read_commit(step).artifacts if name.startswith("under-way")]
        assert len(under_way) == 2
    assert seen > 4
    assert corrected > 1

    assert killed(watched, moments, *settings).committed_steps() == list(range(STEPS + 1))
    assert_same_commits(whole.directory.parent, "whole", "killed")
    assert [len(met) for met in watched.weights.values()] == [1] * (STEPS + 1)


@pytest.mark.slow
def test_where_policies_do_not_differ_parts_make_the_whole(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The greedy ones too; log-probs differ by rounding."""
    still = ["learner.lr=1e-30", "algorithm.filter.enabled=false", "algorithm.advantage.estimator=remax"]
    with monkeypatch.context() as patch:
        has_changed, rewound = with_an_engine_that_lags(patch)
        whole = trained("whole", *parts_of(2, 1), *still, "train.steps=4")
    # The learner is a step ahead when step 4 samples; rewound, it would have to replay that step.
    assert len(has_changed) > 2 * 4
    assert (any(has_changed), rewound) == (False, [])
    in_parts = trained("parts", *parts_of(2, 3), *still, "train.steps=3")
    for step in range(1, 4):
        one, other = first_draw(whole, step), first_draw(in_parts, step)
        pd.testing.assert_frame_equal(one.drop(columns="log_probs"), other.drop(columns="log_probs"))
        for expected, found in zip(one["log_probs"], other["log_probs"], strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-4)
        assert "rollout/staleness_mean" not in whole.read_commit(step).metrics
        assert set(one["sample"]) == {-1, 0, 1, 2, 3}


def with_an_engine_that_lags(monkeypatch: pytest.MonkeyPatch) -> tuple[list[bool], list[int]]:
    """From now on each call of an engine takes a while.

    Returns whether the engine's weights changed before each call, and the versions that the learner was rewound to.
    """
    stream, has_changed = InProcess.stream, list[bool]()
    rewind, rewound = PlainWorkers._rewind, list[int]()

    async def slow(engine: InProcess, told: Any, method: str, *asked: Any) -> Any:
        if method == "generate":
            version = engine.service.version()
            await asyncio.sleep(0.1)
            has_changed.append(engine.service.version() != version)
        return await stream(engine, told, method, *asked)

    async def counted(cluster: PlainWorkers, learner: Any, version: int, held: int | None) -> None:
        rewound.append(version)
        await rewind(cluster, learner, version, held)

    monkeypatch.setattr(InProcess, "stream", slow)
    monkeypatch.setattr(PlainWorkers, "_rewind", counted)
    return has_changed, rewound


def resumes_after(store: RunStore) -> int:
    """The step after which `ares resume` goes on, as `ares verify` foretells it."""
    run = Run.open(read_config(store), store.name, store.directory.parent)
    run.close()
    assert verify(store).resumes_after == run.state.step
    return run.state.step


def test_verify_and_a_resume_agree_on_policies_that_are_lost(stale: tuple[RunStore, Watched], tmp_path: Path) -> None:
    """Step 4 samples from the policy after step 1; the checkpoint of step 2 is of a later one."""
    store = RunStore(shutil.copytree(stale[0].directory, tmp_path / "whole"))
    for step in (4, 5):
        (store.directory / store.step_path(step) / "COMMIT.json").unlink()
    assert resumes_after(store) == 3
    (store.directory / store.read_commit(1).artifacts["batch"].path).write_bytes(b"")
    assert resumes_after(store) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "steps", "damaged"),
    [
        (3, 3, "under-way-0001"),
        (1, 4, "batch"),  # the checkpoint of step 4 needs no batch; step 3's policy, from which step 6 samples, does
    ],
)
def test_a_step_whose_files_later_ones_need_is_repeated_if_they_are_damaged(
    parts: int, steps: int, damaged: str, watched: Watched
) -> None:
    whole = trained("whole", *parts_of(2, parts))
    store = trained("run", *parts_of(2, parts), f"train.steps={steps}")
    file = store.path(store.read_commit(3).artifacts[damaged])
    content = file.read_bytes()
    file.write_bytes(b"")
    (damage,) = verify(store).damages
    assert f"{file.name} has changed" in damage
    assert resumes_after(store) == 2
    trained("run", *parts_of(2, parts))
    assert file.read_bytes() == content
    assert whole.read_commit(STEPS).artifacts["batch"].sha256 == store.read_commit(STEPS).artifacts["batch"].sha256


def test_without_stale_samples_weights_are_one_and_nothing_is_planned(watched: Watched) -> None:
    store = trained("fresh", "train.steps=2", "rollout.prompts=2")
    for step in (1, 2):
        commit = store.read_commit(step)
        assert "planned" not in commit.state
        assert "rollout/staleness" not in commit.metrics
        assert set(watched.asked[step, "rollout"]) == {step - 1}
        assert commit.metrics["mismatch/ratio_max"] == pytest.approx(1.0, abs=1e-3)
        assert commit.metrics["mismatch/ratio_min"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 3])
def test_a_run_that_is_made_longer_ends_as_one_that_was_meant_to_be(parts: int, watched: Watched) -> None:
    """What its last steps would have drawn ahead is drawn then, from policies before its end; first parts that were
    drawn with those of other steps exist already."""
    settings = [*parts_of(2, parts), "train.steps=4", "validation.every=4"]
    whole = trained("whole", *settings)
    shorter = trained("longer", *settings, "train.steps=2")
    assert not list((shorter.directory / "steps").glob(f"{2 + parts:06d}"))
    last = [each.read_commit(4) for each in (whole, trained("longer", *settings))]
    assert last[0].state["planned"] == last[1].state["planned"]
    assert last[0].artifacts["checkpoint"].sha256 == last[1].artifacts["checkpoint"].sha256
    assert last[0].artifacts["batch"].sha256 == last[1].artifacts["batch"].sha256
    assert whole.committed_steps() == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_what_an_old_policy_is_rebuilt_from_is_kept(stale: tuple[RunStore, Watched], watched: Watched) -> None:
    """One checkpoint is kept, and the one that the next step's policy needs; `ares gc` deletes earlier ones."""
    settings = "rollout.max_staleness=2"
    store = trained("run", settings, "train.steps=4")
    assert sorted(path.name for path in (store.directory / "checkpoints").iterdir()) == ["000002", "000004"]
    gone = store.directory / "checkpoints" / "000002"
    gone.rename(store.directory / "away")
    assert prune(store, dry_run=True) == {}
    (store.directory / "away").rename(gone)
    assert {path.parent.name for path in prune(store, dry_run=False)} == {"000001"}
    trained("run", settings)
    last = [each.read_commit(STEPS).artifacts["checkpoint"].sha256 for each in (stale[0], store)]
    assert last[0] == last[1]


@pytest.mark.parametrize("overrides", [[], ["rollout.max_staleness=0"]])
def test_a_fork_is_refused_in_a_line(overrides: list[str], stale: tuple[RunStore, Watched]) -> None:
    with pytest.raises(ConfigError, match=r"^A run with rollout\.max_staleness samples from older weights.*$"):
        fork("whole", 1, None, overrides, "forked", stale[0].directory.parent)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["rollout.max_staleness=-1"], "greater than or equal to 0"),
        (["rollout.max_staleness=17"], "less than or equal to 16"),
        (["rollout.max_staleness=two"], "valid integer"),
        (["rollout.max_staleness=2", "algorithm.policy.importance_cap=null"], "needs algorithm.policy.importance_cap"),
        (["rollout.parts=2"], "must be at most rollout.max_staleness (0) + 1"),
        (["rollout.parts=5", "rollout.max_staleness=4"], "divide rollout.max_response_length (72)"),
        (["rollout.parts=0"], "greater than or equal to 1"),
        (["rollout.parts=2", "rollout.max_staleness=1", "model.family=vision_language"], "parts above 1 is for causal"),
        (["rollout.parts=2", "rollout.max_staleness=1", "reward.kind=code", "rollout.second_turn.enabled=true"],
         "parts above 1 is for causal models without rollout.second_turn"),
        (["rollout.max_staleness=1", "algorithm.policy.old_log_probs=engine", "algorithm.aepo.enabled=false",
          "algorithm.kl.placement=none"], "and rollout.max_staleness need"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_line(settings: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load("tiny-math", settings)
    (line,) = [line for line in str(refused.value).splitlines() if said in line]
    assert line


def test_a_users_engine_declares_that_it_continues_responses(tmp_path: Path) -> None:
    own = "from ares.engines import TransformersEngine\n\n\nclass Own(TransformersEngine):\n    "
    (tmp_path / "silent.py").write_text(f"{own}pass\n")
    (tmp_path / "says.py").write_text(f"{own}continues = True\n")
    settings = ["rollout.parts=2", "rollout.max_staleness=1"]
    assert load("tiny-math", [*settings, f"rollout.engine={tmp_path}/says.py:Own"]).rollout.parts == 2
    with pytest.raises(ConfigError, match="engines that go on with a response: transformers, vllm, or one with contin"):
        load("tiny-math", [*settings, f"rollout.engine={tmp_path}/silent.py:Own"])
