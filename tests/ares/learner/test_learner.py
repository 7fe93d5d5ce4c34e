"""Experience, and the update: what it computes, whatever the micro-batches."""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from algorithms.groups import SECOND_TURN_SLOT
from algorithms.protocol import DataProto
from ares.config import KL_CONTROLLERS
from ares.learner.learner import Learner
from ares.step.collate import as_sampled
from ares.step.shaping import shape
from ares.step.state import RunState
from tests.ares.builders import MODEL, PAD, experienced, rows, shaped, to_batch
from tests.ares.learner_builders import LENGTHS, equal, finite, gradients, learner, sampled, weights

ESTIMATORS = ("grpo", "rloo", "reinforce_plus_plus", "remax", "gae")


# ---- experience ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 10_000])
def test_experience_is_the_policys_own_log_probs_whatever_the_micro_batches(budget: int) -> None:
    fields = experienced(learner(f"learner.micro_batch_tokens={budget}", "rollout.temperature=0.7"), sampled())
    policy = learner("rollout.temperature=0.7").policy
    mask = fields.tensor("response_mask").bool()
    expected = policy.token_log_probs(fields.batch.to("cpu"), 0.7)
    torch.testing.assert_close(fields.tensor("old_log_probs")[mask], expected.log_probs.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(fields.tensor("entropies")[mask], expected.entropies.detach(), atol=1e-5, rtol=1e-5)
    for name in ("old_log_probs", "entropies", "ref_log_probs"):
        assert (fields.tensor(name)[~mask] == 0).all()


def test_before_the_first_update_policy_and_reference_agree() -> None:
    fields = experienced(learner("algorithm.kl.penalty=full", "algorithm.advantage.estimator=gae"), sampled())
    assert torch.equal(fields.tensor("old_log_probs"), fields.tensor("ref_log_probs"))
    torch.testing.assert_close(
        fields.tensor("exact_kl"), torch.zeros_like(fields.tensor("exact_kl")), atol=1e-6, rtol=0
    )
    assert (fields.tensor("values") == 0).all()


def test_an_update_moves_the_policy_and_leaves_the_reference() -> None:
    trained = learner("learner.lr=0.01")
    before = experienced(trained, sampled())
    trained.update(shaped(trained, sampled()))
    after = experienced(trained, sampled())
    assert torch.equal(before.tensor("ref_log_probs"), after.tensor("ref_log_probs"))
    assert not torch.allclose(before.tensor("old_log_probs"), after.tensor("old_log_probs"), atol=1e-3)


def test_the_exact_kl_alone_moves_the_policy_to_a_reference_that_is_another_model(tmp_path: Path) -> None:
    """On-policy distillation: the advantages are 0, and the divergence from the teacher falls at every update."""
    teacher = tmp_path / "teacher"
    shutil.copytree(MODEL, teacher)
    taught = load_file(MODEL / "model.safetensors")
    noise = torch.Generator().manual_seed(0)
    save_file({name: tensor + 0.01 * torch.randn(tensor.shape, generator=noise) for name, tensor in taught.items()},
              teacher / "model.safetensors", {"format": "pt"})  # fmt: skip
    student = learner("algorithm=distill", f"model.reference={teacher}", "learner.lr=0.0001")
    fields = experienced(student, sampled())
    theirs = experienced(learner(f"model.path={teacher}"), sampled())
    torch.testing.assert_close(fields.tensor("ref_log_probs"), theirs.tensor("old_log_probs"), atol=1e-6, rtol=0)
    mask, apart = fields.tensor("response_mask").bool(), []
    for _ in range(4):
        apart.append(float(experienced(student, sampled()).tensor("exact_kl")[mask].mean()))
        batch = shaped(student, sampled())
        assert not batch.tensor("advantages").any()
        student.update(batch)
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 0.8 * apart[0]


def test_without_a_kl_no_reference_is_loaded() -> None:
    free = learner("algorithm.kl.placement=none")
    assert free.reference is None
    batch = shaped(free, sampled())
    assert "ref_log_probs" not in batch.fields
    assert finite(free.update(batch))


# ---- the update ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_batch_of_every_estimator_trains(estimator: str) -> None:
    trained = learner(f"algorithm.advantage.estimator={estimator}")
    columns = {"baseline": [1.0] * 4 + [0.0] * 4} if estimator == "remax" else {}
    before = weights(trained)
    result = trained.update(shaped(trained, sampled(**columns)))
    assert finite(result)
    assert result.metrics["actor/skipped_updates"] == 0
    assert result.metrics["actor/optimizer_steps"] == 1
    assert result.metrics["actor/grad_norm"] > 0
    assert trained.version == 1
    after = weights(trained)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert any(not name.startswith("critic/") for name in moved)
    assert ("critic/head.weight" in moved) == (estimator == "gae")
    assert ("critic/vf_loss" in result.metrics) == (estimator == "gae")


def test_with_constant_aggregation_rows_that_are_masked_out_leave_the_others_their_weight() -> None:
    settings = ("algorithm.policy.aggregation=constant", "algorithm.advantage.estimator=gae",
                "algorithm.kl.placement=none")  # fmt: skip

    def losses(*masked: int) -> dict[str, float]:
        trained = learner(*settings)
        batch = shaped(trained, sampled())
        batch.tensor("response_mask")[list(masked)] = 0
        return {name: value for name, value in trained.update(batch).metrics.items() if name.endswith("_loss")}

    whole, first, second = losses(), losses(4, 5, 6, 7), losses(0, 1, 2, 3)
    for name in ("actor/pg_loss", "critic/vf_loss"):
        assert abs(first[name]) > 1e-4
        assert first[name] + second[name] == pytest.approx(whole[name], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("penalty", "placement"),
    [("abs", "loss"), ("mse", "loss"), ("low_var_kl", "loss"), ("full", "loss"), ("kl", "reward"), ("abs", "reward")],
)
def test_every_kl_penalty_trains(penalty: str, placement: str) -> None:
    trained = learner(f"algorithm.kl={{penalty: {penalty}, placement: {placement}, coef: 1.0}}", "learner.lr=0.003")
    first = trained.update(shaped(trained, sampled()))
    second = trained.update(shaped(trained, sampled()))  # the policy has left the reference: the KL is not 0
    for result in (first, second):
        assert finite(result)
        assert result.metrics["actor/skipped_updates"] == 0
    assert ("actor/kl_loss" in second.metrics) == (placement == "loss")
    if placement == "loss":
        assert first.metrics["actor/kl_loss"] == pytest.approx(0.0, abs=1e-6)
        assert second.metrics["actor/kl_loss"] != pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("penalty", ["full", "low_var_kl"])
def test_the_kl_in_the_loss_pulls_the_policy_back_to_the_reference(penalty: str, tmp_path: Path) -> None:
    """Without advantages the KL is all there is, and a small step against its gradient makes it smaller."""
    kl = f"algorithm.kl={{penalty: {penalty}, coef: 1.0, kind: fixed, relax_hwe: 1.0}}"
    strayed = learner(kl, "learner.lr=0.0003")
    strayed.update(shaped(strayed, sampled()))
    strayed.optimizer.state.clear()  # its momentum still points away
    strayed.save(tmp_path)
    pulled = learner(kl, "learner.lr=0.000003")
    pulled.load(tmp_path)
    batch = shaped(pulled, sampled())
    batch.batch["advantages"].zero_()
    losses = [pulled.update(batch).metrics["actor/kl_loss"] for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_before_the_first_step_every_ratio_is_one() -> None:
    trained = learner("algorithm.kl.placement=none")
    batch = shaped(trained, sampled())
    metrics = trained.update(batch).metrics
    assert metrics["actor/ppo_kl"] == pytest.approx(0.0, abs=1e-6)
    assert metrics["actor/pg_clipfrac_higher"] == 0.0
    assert metrics["actor/pg_clipfrac_lower"] == 0.0
    mask = batch.tensor("response_mask")
    expected = -(batch.tensor("advantages") * mask).sum() / mask.sum()
    assert metrics["actor/pg_loss"] == pytest.approx(float(expected), abs=1e-5)


def test_with_the_engines_log_probs_the_update_measures_the_mismatch_where_it_begins() -> None:
    plain = ("algorithm.kl.placement=none", "algorithm.aepo.enabled=false", "algorithm.policy.importance_cap=null")
    of_engine = [*plain, "algorithm.policy.old_log_probs=engine", "learner.global_batch_prompts=1", "learner.lr=0.01"]
    exact = experienced(learner(*plain), sampled())
    mask = exact.tensor("response_mask").bool()
    trained = learner(*of_engine)
    batch = to_batch(sampled(), PAD)
    batch.batch["engine_log_probs"] = exact.tensor("old_log_probs") - 0.1 * mask
    batch = batch.union(as_sampled(batch))
    metrics = shape(batch, RunState.initial(trained.config, 100), trained.config)
    assert metrics["entropy/mean"] == pytest.approx(float(-batch.tensor("engine_log_probs")[mask].mean()))
    assert not any(name.startswith("mismatch/") for name in metrics)
    measured = trained.update(batch).metrics  # two optimiser steps: before the second the policy is another
    assert measured["actor/optimizer_steps"] == 2
    assert measured["mismatch/logprob_diff_mean"] == pytest.approx(0.1, abs=1e-5)
    assert measured["mismatch/kl"] == pytest.approx(-0.1, abs=1e-5)


def test_with_the_engines_log_probs_the_same_engine_makes_the_same_update() -> None:
    plain = ("algorithm.kl.placement=none", "algorithm.aepo.enabled=false")
    one, other = learner(*plain), learner(*plain, "algorithm.policy.old_log_probs=engine")
    batch = shaped(one, sampled())
    expected, actual = one.update(batch).metrics, other.update(batch).metrics
    assert equal(weights(one), weights(other))
    assert actual["mismatch/logprob_diff_mean"] == pytest.approx(0.0, abs=1e-6)
    assert {name: value for name, value in actual.items() if "mismatch" not in name} == expected


def test_a_second_epoch_sees_a_moved_policy() -> None:
    trained = learner("algorithm.policy.epochs=2", "learner.lr=0.01", "algorithm.kl.placement=none")
    metrics = trained.update(shaped(trained, sampled())).metrics
    assert metrics["actor/optimizer_steps"] == 2
    assert metrics["actor/ppo_kl"] != pytest.approx(0.0, abs=1e-4)
    assert trained.version == 1


def test_the_gradient_is_that_of_the_whole_batch_in_one_naive_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean over tokens of −w·A·ratio + coef·k3, by autograd over the model's own logits, one row at a time."""
    settings = ("learner.max_grad_norm=1e9", "algorithm.kl={coef: 0.1, kind: fixed}", "learner.micro_batch_tokens=30")
    trained, still = learner(*settings), learner(*settings)
    batch = shaped(trained, sampled())
    batch.batch["ref_log_probs"] -= 0.3 * batch.tensor("response_mask")
    batch.batch["importance_weights"] = torch.linspace(0.5, 2, batch.tensor("responses").numel()).view(len(batch), -1)
    monkeypatch.setattr(trained, "_release_memory", lambda: None)  # it would drop the gradients
    trained.update(batch)

    model = still.policy.model
    total = torch.zeros(())
    for row in range(len(batch)):
        keep = batch.tensor("attention_mask")[row].bool()
        ids = torch.cat([batch.tensor("prompts")[row], batch.tensor("responses")[row]])[keep]
        mask = batch.tensor("response_mask")[row].bool()
        logits = model(input_ids=ids[None], use_cache=False).logits[0]
        log_probs = torch.log_softmax(logits, -1)[-int(mask.sum()) - 1 : -1].gather(-1, ids[-int(mask.sum()) :, None])[
            :, 0
        ]
        old, ref = (batch.tensor(name)[row][mask] for name in ("old_log_probs", "ref_log_probs"))
        k3 = (ref - log_probs).exp() - (ref - log_probs) - 1
        gain = batch.tensor("importance_weights")[row][mask] * batch.tensor("advantages")[row][mask]
        terms = -gain * (log_probs - old).exp() + batch.tensor("kl_coefs")[row][mask] * k3
        total = total + terms.sum()
    (total / batch.tensor("response_mask").sum()).backward()
    for log_probs, parameter in zip(gradients(trained), model.parameters(), strict=True):
        torch.testing.assert_close(log_probs, parameter.grad, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("aggregation", "estimator"), [("token", "grpo"), ("seq", "grpo"), ("constant", "grpo"), ("token", "gae")]
)
def test_micro_batches_of_another_size_give_the_same_update(aggregation: str, estimator: str) -> None:
    results = []
    for budget in (45, 100_000):
        trained = learner(
            f"learner.micro_batch_tokens={budget}", f"algorithm.policy.aggregation={aggregation}",
            f"algorithm.advantage.estimator={estimator}", "learner.max_grad_norm=1e9", "learner.critic_lr=0.001",
        )  # fmt: skip
        batch = shaped(trained, sampled())
        batch.batch["ref_log_probs"] -= 0.3 * batch.tensor("response_mask")
        result = trained.update(batch)
        results.append((gradients(trained), result.metrics))
    (parts, of_parts), (whole, of_whole) = results
    assert of_parts == pytest.approx(of_whole, abs=1e-5, rel=1e-4)
    for one, other in zip(parts, whole, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("loss", ["loss: kl_cov", "loss: clip_cov, settings: {low: 0.05, high: 9, share: 0.1}"])
def test_a_loss_that_chooses_tokens_chooses_among_the_whole_global_batch(loss: str) -> None:
    results = []
    for budget in (1, 100_000):
        trained = learner(f"learner.micro_batch_tokens={budget}", f"algorithm.policy={{epochs: 2, {loss}}}")
        results.append((trained.update(shaped(trained, sampled())).metrics, weights(trained)))
    (one, by_rows), (other, at_once) = results
    assert one["actor/pg_clipfrac"] > 0
    assert one == pytest.approx(other, abs=1e-5, rel=1e-4)
    for name, weight in by_rows.items():
        torch.testing.assert_close(weight, at_once[name], atol=1e-5, rtol=1e-3)


def test_an_entropy_bonus_is_a_term_of_the_loss() -> None:
    trained = learner("algorithm.entropy_bonus={coef: 0.5, target: 100}", "algorithm.kl.placement=none")
    still, batch = weights(trained), shaped(trained, sampled())
    batch.batch["advantages"].zero_()
    metrics = trained.update(batch).metrics
    mean = batch.tensor("entropies")[batch.tensor("response_mask").bool()].mean()
    assert metrics["actor/entropy_bonus"] == pytest.approx(-0.5 * float(mean), rel=1e-4)
    assert not equal(weights(trained), still)


@pytest.mark.parametrize("continued", [[], [0], [0, 1, 3]])
def test_second_turns_are_in_the_step_of_their_prompt(continued: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """With a prompt a step, two turns of the first of three made steps of prompts 0 and 1, 1 and 2, and 2."""
    trained, steps = learner("rollout.prompts=4", "learner.global_batch_prompts=1"), []
    batch = shaped(trained, rows([[1, 0]] * (4 + len(continued))))
    slots = sorted([*range(4), *(SECOND_TURN_SLOT + slot for slot in continued)], key=lambda s: s % SECOND_TURN_SLOT)
    batch.non_tensor_batch["uid"] = np.repeat(slots, 2).astype(object)
    take_step = trained._optimizer_step

    def monitored(part: DataProto, *more: Any) -> Any:
        steps.append({slot % SECOND_TURN_SLOT for slot in part.non_tensor_batch["uid"]})
        return take_step(part, *more)

    monkeypatch.setattr(trained, "_optimizer_step", monitored)
    trained.update(batch)
    assert steps == [{0}, {1}, {2}, {3}]


def test_the_learning_rate_warms_up_by_optimiser_steps() -> None:
    rates = []
    trained = learner("learner.lr=0.004", "learner.warmup_steps=4")
    for _ in range(6):
        metrics = trained.update(shaped(trained, sampled())).metrics
        rates.append((trained.optimizer.param_groups[0]["lr"], metrics["actor/lr"]))
    expected = [0.001, 0.002, 0.003, 0.004, 0.004, 0.004]
    assert [used for used, _ in rates] == pytest.approx(expected)
    assert [told for _, told in rates] == pytest.approx(expected)


def test_gradients_are_scaled_down_to_the_norm_and_told_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = learner("learner.max_grad_norm=0.01")
    monkeypatch.setattr(trained, "_release_memory", lambda: None)
    metrics = trained.update(shaped(trained, sampled())).metrics
    assert metrics["actor/grad_norm"] > 0.01
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in gradients(trained)]))
    assert float(norm) == pytest.approx(0.01, rel=1e-3)


def test_after_an_update_and_a_checkpoint_no_gradient_takes_memory(tmp_path: Path) -> None:
    trained = learner()
    trained.update(shaped(trained, sampled()))
    assert gradients(trained) == []
    weight = next(trained.policy.model.parameters())
    weight.grad = torch.ones_like(weight)
    trained.save(tmp_path)
    assert gradients(trained) == []


def test_rows_without_a_learnt_token_do_not_reach_the_update() -> None:
    """An unscored row's tokens may be anything."""
    accuracies: list[list[float | None]] = [[1, 0, 0, None], [0, None, 1, 0]]
    one, other = learner(), learner()
    table = rows(accuracies, LENGTHS)
    batch = shaped(one, table)
    changed = table.copy()
    changed["token_ids"] = [
        ids if accuracy == accuracy and accuracy is not None else (ids + 1) % 300
        for ids, accuracy in zip(table["token_ids"], table["accuracy"], strict=True)
    ]
    replaced = shaped(other, changed)
    for name in ("advantages", "kl_coefs", "importance_weights"):
        replaced.batch[name] = batch.tensor(name).clone()
    one.update(batch)
    other.update(replaced)
    assert equal(weights(one), weights(other))


def test_a_batch_with_nothing_to_learn_from_changes_nothing_and_is_counted() -> None:
    trained = learner()
    batch = shaped(trained, sampled())
    batch.batch["response_mask"].zero_()
    before = weights(trained)
    result = trained.update(batch)
    assert result.metrics["actor/skipped_updates"] == 1
    assert equal(before, weights(trained))


# ---- the β controller in the loss ------------------------------------------------------------------------------------

BETA = ("algorithm.kl={kind: bucket_beta, beta_interval: 1, target: 0.05, penalty: low_var_kl}",)


def with_kl(of: Learner, distance: float) -> DataProto:
    batch = shaped(of, sampled())
    batch.batch["ref_log_probs"] -= distance * batch.tensor("response_mask")
    return batch


def test_the_beta_controller_moves_with_the_kl_of_each_bucket() -> None:
    trained = learner(*BETA)
    batch = with_kl(trained, 1.0)
    before = KL_CONTROLLERS.make(trained.config.algorithm.kl).state_dict()
    updated = trained.update(batch, before)
    after = updated.beta
    assert after is not None
    shown = set(batch.non_tensor_batch["difficulty"])
    assert shown == {"medium", "hard"}
    for bucket in ("easy", "medium", "hard"):
        assert (after["betas"][bucket] > before["betas"][bucket]) == (bucket in shown)
    # k3 of a log-ratio of −1 is e − 2: exact, as the policy has not moved.
    assert after["kl_ema"] == pytest.approx(dict.fromkeys(shown, math.exp(-1.0)), rel=1e-3)
    assert before["updates"] == 0
    assert after["updates"] == 1
    # The metrics of a step have β as the step left it.
    assert {b: updated.metrics[f"bucket/{b}/beta"] for b in after["betas"]} == after["betas"]


def test_the_beta_scales_the_kl_loss() -> None:
    losses = {}
    for factor in (1.0, 3.0):
        trained = learner(*BETA)
        state = KL_CONTROLLERS.make(trained.config.algorithm.kl).state_dict()
        state["betas"] = dict.fromkeys(state["betas"], factor)
        losses[factor] = trained.update(with_kl(trained, 1.0), state).metrics["actor/kl_loss"]
    assert losses[3.0] == pytest.approx(3 * losses[1.0], rel=1e-5)


def test_a_skipped_update_does_not_move_the_beta_controller() -> None:
    trained = learner(*BETA)
    batch = with_kl(trained, 1.0)
    batch.batch["advantages"][0, 0] = math.nan
    before = KL_CONTROLLERS.make(trained.config.algorithm.kl).state_dict()
    assert trained.update(batch, before).beta == before


# ---- losses and gradients that are not finite ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "bad"),
    [("advantages", math.nan), ("advantages", math.inf), ("kl_coefs", math.inf), ("old_log_probs", math.nan),
     ("returns", math.nan)],
)  # fmt: skip
def test_a_value_that_is_not_finite_skips_the_update_and_is_counted(name: str, bad: float) -> None:
    trained = learner("algorithm.advantage.estimator=gae")
    batch = shaped(trained, sampled())
    before = weights(trained)
    good = batch.tensor(name).clone()
    batch.batch[name][2, 0] = bad
    result = trained.update(batch)
    assert finite(result)
    assert result.metrics["actor/skipped_updates"] == 1
    assert result.metrics["actor/optimizer_steps"] == 0
    assert trained.version == 1
    assert equal(before, weights(trained))
    # It leaves nothing behind: the next update is what it would have been.
    batch.batch[name] = good
    trained.update(batch)
    untouched = learner("algorithm.advantage.estimator=gae")
    untouched.update(batch)
    assert equal(weights(untouched), weights(trained))


def test_only_the_optimiser_step_with_the_bad_value_is_skipped() -> None:
    trained = learner("learner.global_batch_prompts=1")
    batch = shaped(trained, sampled())
    batch.batch["advantages"][5, 0] = math.nan
    result = trained.update(batch)
    assert result.metrics["actor/skipped_updates"] == 1
    assert result.metrics["actor/optimizer_steps"] == 1
    reference = learner("rollout.prompts=1", "learner.global_batch_prompts=1")
    reference.update(batch[:4])
    assert equal(weights(reference), weights(trained))
