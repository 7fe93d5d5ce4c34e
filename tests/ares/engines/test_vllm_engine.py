"""vLLM samples from exactly the learner's policy, also after its weights were replaced in place.

One engine actor serves the whole module, a run that trains included: its start takes about fifteen seconds. Skipped
where vLLM is not installed.
"""

import asyncio
import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import ray
import torch

from ares.cluster.actors import EngineActor
from ares.cluster.cluster import Cluster
from ares.cluster.connection import connect
from ares.config import Config, load
from ares.engines.engine import Request, SamplingSettings
from ares.learner.learner import Learner
from ares.runs.run import Run
from ares.store.store import RunStore
from ares.workers import PlainWorkers
from tests.ares.builders import END, config, requests, tokenizer
from tests.ares.cluster.test_cluster import assert_same_samples
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL
from tests.short_runs import ares, train

pytestmark = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
CONFIG = config("rollout.engine=vllm", "data.max_prompt_length=300", "rollout.max_response_length=24")
SETTINGS = SamplingSettings(temperature=1.0, top_p=1.0, max_tokens=24)
BOUND = CONFIG.mismatch_bound
assert BOUND is not None


def careless() -> type[EngineActor]:
    """The engine, with an update in place that leaves out one of two things that raise no error."""

    class Careless(EngineActor):  # defined in here, Ray ships the class itself and not the name of this module
        def load_weights_without(self, version: int, weights: dict[str, np.ndarray], left_out: str) -> None:
            import ares.engines.vllm_internals as module
            from ares.engines import VllmEngine

            assert isinstance(self.engine, VllmEngine)
            kept = module._repack_tied_head, self.engine.llm.reset_prefix_cache
            if left_out == "head":
                module._repack_tied_head = lambda worker: None
            else:
                self.engine.llm.reset_prefix_cache = lambda: True
            try:
                self.load_weights(version, weights)
            finally:
                module._repack_tied_head, self.engine.llm.reset_prefix_cache = kept

        def compiled(self) -> int:
            """Functions that torch has compiled in this process."""
            return sum(torch._dynamo.utils.counters["frames"].values())

    return Careless


class Sampler:
    """The actor with the learner's weights in it."""

    def __init__(self, directory: Path, settings: Config = CONFIG) -> None:
        connect(cpus=3)  # one for this engine, two for the run of a test
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ares.cluster.cluster.EngineActor", careless())
            self.engine = Cluster(settings, RunStore(directory))._start_engine()
        (self.actor,) = self.engine.actors
        self.learner = Learner(settings)
        self.version = 0
        self.hand_over()

    def hand_over(self, without: str | None = None) -> None:
        """Hand the learner's weights to the engine, optionally leaving out one part of the update."""
        weights = {name: tensor.numpy().copy() for name, tensor in self.learner.weights().items()}
        if without is None:
            ray.get(self.actor.load_weights.remote(self.version, weights))
        else:
            ray.get(self.actor.load_weights_without.remote(self.version, weights, without))

    def move_on(self) -> None:
        """Another policy."""
        self.version += 1
        generator = torch.Generator().manual_seed(self.version)
        with torch.no_grad():
            for parameter in self.learner.policy.model.parameters():
                parameter += 0.02 * torch.randn(parameter.shape, generator=generator)

    def sample(self, asked: list[Request], settings: SamplingSettings = SETTINGS) -> pd.DataFrame:
        parts = [ray.get(part) for part in self.actor.generate.remote(asked, settings)]
        return pd.concat(parts).sort_index()

    def difference(self, asked: list[Request], settings: SamplingSettings = SETTINGS) -> np.ndarray:
        """|engine's − learner's log-prob| of each sampled token."""
        found = []
        for request, row in zip(asked, self.sample(asked, settings).itertuples(), strict=True):
            ids = torch.tensor([request.prompt_token_ids + row.token_ids.tolist()])
            with torch.no_grad():
                logits = self.learner.policy.model(input_ids=ids).logits[0, len(request.prompt_token_ids) - 1 : -1]
            own = torch.log_softmax(logits / (settings.temperature or 1.0), -1)
            chosen = own.gather(-1, torch.tensor(row.token_ids, dtype=torch.long)[:, None])[:, 0].numpy()
            found.append(np.abs(chosen - row.log_probs))
        return np.concatenate(found)


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sampler]:
    sampler = Sampler(tmp_path_factory.mktemp("vllm"))
    yield sampler
    ray.kill(sampler.actor)
    ray.shutdown()


def long_requests(count: int) -> list[Request]:
    """Prompts of 200 tokens that share their first 190: longer than a block of the prefix cache (128)."""
    shared = np.random.default_rng(0).integers(3, 300, 190).tolist()
    return [Request([*shared, *np.random.default_rng(i).integers(3, 300, 10).tolist()], i) for i in range(count)]


def test_prompts_that_do_not_fit_into_one_pass_are_answered(vllm: Sampler) -> None:
    """vLLM would cut the last one in two, and cannot undo the draw from a CPU's generator after the first half."""
    draws = np.random.default_rng(0).integers(3, 300, (20, 280))  # 5,600 tokens; a pass takes 4,096
    asked = [Request(prompt.tolist(), seed) for seed, prompt in enumerate(draws)]
    found = vllm.sample(asked)
    assert [len(row) > 0 for row in found["token_ids"]] == [True] * 20
    assert_same_samples(found.iloc[-2:], vllm.sample(asked[-2:]))


def test_the_same_requests_give_the_same_bits_and_seeds_decide(vllm: Sampler) -> None:
    first = vllm.sample(requests(24))
    vllm.sample(requests(5, seed=9))
    assert_same_samples(vllm.sample(requests(24)), first)
    assert_same_samples(vllm.sample(requests(24)[:7]), first[:7])
    assert not all(
        np.array_equal(a, b)
        for a, b in zip(vllm.sample(requests(24, seed=1))["token_ids"], first["token_ids"], strict=True)
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU it pays")
def test_nothing_is_compiled_on_a_cpu(vllm: Sampler) -> None:
    vllm.sample(requests(2))
    assert ray.get(vllm.actor.compiled.remote()) == 0


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_log_probs_are_the_learners_at_the_sampling_temperature(vllm: Sampler, temperature: float) -> None:
    assert vllm.difference(requests(24), SamplingSettings(temperature, 1.0, 24)).max() < 1e-4


def test_a_response_ends_at_its_first_end_token_or_at_the_limit(vllm: Sampler) -> None:
    answers = vllm.sample(requests(40))
    assert set(answers["finish_reason"]) == {"stop", "length"}
    for row in answers.itertuples():
        tokens = row.token_ids.tolist()
        assert len(row.log_probs) == len(tokens)
        assert tokens.index(END) == len(tokens) - 1 if row.finish_reason == "stop" else END not in tokens
        assert row.finish_reason == "stop" or len(tokens) == SETTINGS.max_tokens


def test_a_response_ends_with_the_token_that_completes_a_stop_string(vllm: Sampler) -> None:
    """Up to the stop string the tokens are those without stop strings: cut there, the texts are equal."""
    whole = vllm.sample(requests(40))
    found = vllm.sample([replace(request, stops=("oxed{1", "2")) for request in requests(40)])
    ends = [[text.find(stop) for stop in ("oxed{1", "2") if stop in text] for text in whole["response"]]
    assert 5 < sum(map(bool, ends)) < 40
    for answer, before, places in zip(found.itertuples(), whole.itertuples(), ends, strict=True):
        assert answer.token_ids.tolist() == before.token_ids[: len(answer.token_ids)].tolist()
        assert answer.response[: min(places, default=None)] == before.response[: min(places, default=None)]
        if places:
            assert answer.finish_reason == "stop"
            without_last = tokenizer().decode(answer.token_ids[:-1].tolist(), skip_special_tokens=True)
            assert "oxed{1" not in without_last
            assert "2" not in without_last
        else:
            assert answer.token_ids.tolist() == before.token_ids.tolist()


def test_a_response_goes_on_where_it_was_interrupted_with_other_noise(vllm: Sampler) -> None:
    most_probable = SamplingSettings(0.0, 1.0, 24)
    asked = requests(12)
    whole = vllm.sample(asked, most_probable)["token_ids"].tolist()
    going = [
        replace(request, prompt_token_ids=[*request.prompt_token_ids, *own[:4].tolist()], begun=4)
        for request, own in zip(asked, whole, strict=True)
        if len(own) > 4
    ]
    rest = vllm.sample(going, most_probable)["token_ids"].tolist()
    expected = [own[4:].tolist() for own in whole if len(own) > 4]
    assert [ids[: len(own)].tolist() for ids, own in zip(rest, expected, strict=True)] == expected
    assert_same_samples(vllm.sample(going), vllm.sample(going))
    hot = SamplingSettings(2.0, 1.0, 8)
    anew = [replace(request, begun=0) for request in going]
    first, more = (vllm.sample(each, hot)["token_ids"].tolist() for each in (anew, going))
    assert sum(map(np.array_equal, first, more)) < len(going) / 2


def test_responses_come_as_they_finish(vllm: Sampler) -> None:
    handfuls = [ray.get(part) for part in vllm.actor.generate.remote(requests(40), SETTINGS)]
    assert len(handfuls) > 3
    lengths = [part["token_ids"].map(len).max() for part in handfuls]
    assert lengths == sorted(lengths)


def test_after_an_update_in_place_the_log_probs_are_those_of_the_new_weights(vllm: Sampler) -> None:
    vllm.sample(long_requests(8))
    for _ in range(2):
        vllm.move_on()
        vllm.hand_over()
        assert vllm.difference(long_requests(8)).max() < 1e-4
        assert ray.get(vllm.actor.version.remote()) == vllm.version


@pytest.mark.parametrize("left_out", ["head", "prefix cache"])
def test_what_an_update_in_place_may_silently_leave_behind_is_beyond_the_alarm(vllm: Sampler, left_out: str) -> None:
    """The tied head's prepacked copy and the prefix cache stay stale, without an error from vLLM."""
    vllm.sample(long_requests(8))
    vllm.move_on()
    vllm.hand_over(without=left_out)
    assert vllm.difference(long_requests(8)).mean() > BOUND
    vllm.hand_over()
    assert vllm.difference(long_requests(8)).max() < 1e-4


def test_weights_that_do_not_fit_are_named(vllm: Sampler) -> None:
    weights = {name: tensor.numpy().copy() for name, tensor in vllm.learner.weights().items()}
    del weights["model.norm.weight"]
    with pytest.raises(ValueError, match=r"model\.norm\.weight"):
        ray.get(vllm.actor.load_weights.remote(99, weights))


@pytest.mark.slow
def test_an_engine_over_two_processes_samples_from_the_learners_policy_after_an_update_in_place(tmp_path: Path) -> None:
    """Tensor parallelism over processes on a CPU, in place of GPUs."""
    spread = ["rollout.placement=split", "rollout.vllm.tensor_parallel=2", "rollout.engine=vllm"]
    sampler = Sampler(tmp_path, config(*spread, "data.max_prompt_length=300", "rollout.max_response_length=24"))
    for _ in range(2):
        assert sampler.difference(long_requests(8)).max() < 1e-4
        sampler.move_on()
        sampler.hand_over()
    ray.kill(sampler.actor)


@pytest.mark.slow
def test_a_profile_trains_with_vllm(vllm: Sampler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On this module's engine; with one of its own, by the command line: the slow test below."""
    run_in_this_process(tmp_path, monkeypatch)
    monkeypatch.setattr(PlainWorkers, "_start_engine", lambda cluster: vllm.engine)
    monkeypatch.setattr(vllm.engine, "kill", lambda: None)
    settings = [*SMALL, "rollout.engine=vllm", "data.max_prompt_length=300", "rollout.max_response_length=24",
                "train.steps=2", "validation.every=4", "validation.max_prompts=2", "learner.lr=1e-3"]  # fmt: skip
    train_here("tiny-math", settings, "run")
    vllm.hand_over()
    store = RunStore(tmp_path / "run")
    assert store.committed_steps() == [0, 1, 2]
    differences = [store.read_commit(step).metrics["mismatch/logprob_diff_max"] for step in (1, 2)]
    assert all(0 < value < 1e-4 for value in differences)


@pytest.mark.slow
def test_an_evaluation_may_answer_at_greater_length_than_the_run_did(tmp_path: Path) -> None:
    short = ["rollout.engine=vllm", "train.steps=1", "algorithm.filter.enabled=false", "rollout.max_response_length=4"]
    assert train(tmp_path, "run", *short) == 0
    asked = ["eval", "run", "--step", "0", "--n", "2", "--max-problems", "4", "rollout.max_response_length=64"]
    ended = ares(tmp_path, *asked)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    (samples,) = tmp_path.glob("run/evals/*/samples.parquet")
    lengths = pd.read_parquet(samples)["tokens"]
    assert lengths.max() > 4
    assert (lengths[pd.read_parquet(samples)["truncated"]] == 64).all()


@pytest.mark.slow
def test_second_turns_answer_at_full_length_after_the_longest_prompt_try_and_verdict(tmp_path: Path) -> None:
    settings = load("tiny-code-feedback", ["rollout.engine=vllm"])
    longest = settings.data.max_prompt_length + settings.rollout.max_response_length
    prompt = [5] * (longest + settings.rollout.second_turn.max_feedback_length)
    ray.init(address="local", num_cpus=3, include_dashboard=False, ignore_reinit_error=True, log_to_driver=False)
    actor = ray.remote(EngineActor).options(num_cpus=1).remote(settings.model_dump(mode="json"))
    weights = {name: tensor.numpy() for name, tensor in Learner(settings).weights().items()}
    ray.get(actor.load_weights.remote(0, weights))
    how = SamplingSettings(1.0, 1.0, settings.rollout.max_response_length)
    asked = [Request(prompt, seed) for seed in range(8)]
    found = pd.concat([ray.get(part) for part in actor.generate.options(num_returns="streaming").remote(asked, how)])
    ray.kill(actor)
    cut_off = found[found["finish_reason"] == "length"]["token_ids"].map(len)
    assert (cut_off == settings.rollout.max_response_length).all()
    assert len(cut_off) or found["token_ids"].map(len).max() > 12


@pytest.mark.slow
def test_an_engine_killed_between_two_responses_is_rebuilt_with_the_weights_it_had(tmp_path: Path) -> None:
    run = Run.open(CONFIG, "killed", tmp_path, Cluster)
    seen: list[Any] = []

    def kill_once(part: pd.DataFrame) -> None:
        seen.append(part)
        if len(seen) == 2:
            assert run.workers._engine is not None
            run.workers._engine.kill()

    async def sample() -> tuple[pd.DataFrame, pd.DataFrame]:
        interrupted = await run.workers.sample(0, requests(24), SETTINGS, kill_once)
        return interrupted, await run.workers.sample(0, requests(24), SETTINGS)

    interrupted, whole = asyncio.run(sample())
    run.workers.shut_down()
    assert sum(map(len, seen)) > 24
    assert_same_samples(interrupted, whole)
