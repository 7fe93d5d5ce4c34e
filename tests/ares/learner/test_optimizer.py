"""Optimisers: scheduled rates, what decays, Muon beside AdamW; moments moved to another device without changing
updates."""

import math

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

import ares.learner.learner as learner_module
from ares.config import ConfigError, LearnerConfig
from ares.learner.optimizer import MuonWithAdamW, adamw, adamw_8bit, learning_rate, move_moments, muon, take_step
from tests.ares.builders import config, rows, shaped
from tests.ares.learner_builders import equal, learner, sampled, weights


def test_moments_move_and_weights_stay() -> None:
    layer = torch.nn.Linear(3, 2)
    optimizer = adamw(layer, 0.1, config().learner)
    layer(torch.ones(1, 3)).sum().backward()
    take_step(optimizer, 0.1)
    move_moments(optimizer, torch.device("meta"))  # any device but the weights'
    for parameter in layer.parameters():
        state = optimizer.state[parameter]
        assert (state["exp_avg"].is_meta, state["exp_avg_sq"].is_meta, parameter.is_meta) == (True, True, False)
        assert state["step"] == 1


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_an_optimiser_that_is_offloaded_makes_the_same_updates(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = (f"learner.optimizer={optimizer}", "algorithm.advantage.estimator=gae")
    one, other = learner(*settings), learner(*settings, "learner.offload_optimizer=true")
    moved: list[torch.device] = []

    def noted(optimizer: torch.optim.Optimizer, device: torch.device) -> None:
        moved.append(device)
        move_moments(optimizer, device)

    monkeypatch.setattr(learner_module, "move_moments", noted)
    for _ in range(2):
        batch = shaped(one, sampled())
        one.update(batch)
        other.update(batch)
    assert moved == [torch.device("cpu")] * 8  # policy's and critic's, before and after each update
    assert equal(weights(one), weights(other))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1.0] * 12),
        ({"warmup_steps": 4}, [0.25, 0.5, 0.75] + [1.0] * 9),
        ({"schedule": "linear", "decay_steps": 4, "final_lr": 0.2}, [0.8, 0.6, 0.4] + [0.2] * 9),
        (
            {"schedule": "cosine", "decay_steps": 4, "warmup_steps": 2},
            [0.5, 1.0, *(0.5 + 0.5 * math.cos(math.pi * n / 4) for n in (1, 2, 3)), *[0.0] * 7],
        ),
        # Warm-up, stable, decay.
        (
            {"schedule": "linear", "decay_steps": 4, "decay_start": 8, "warmup_steps": 2},
            [0.5] + [1.0] * 7 + [0.75, 0.5, 0.25, 0.0],
        ),
    ],
)
def test_the_rate_rises_stays_and_falls_as_scheduled(settings: dict[str, object], expected: list[float]) -> None:
    scheduled = LearnerConfig.model_validate(settings)
    assert [learning_rate(scheduled, 1.0, step) for step in range(1, 13)] == pytest.approx(expected)


def test_vectors_do_not_decay_if_they_are_not_to() -> None:
    for decays in (True, False):
        layer = torch.nn.Linear(3, 2)
        torch.nn.init.ones_(layer.weight)
        torch.nn.init.ones_(layer.bias)
        settings = LearnerConfig(weight_decay=0.1, decay_vectors=decays)
        optimizer = adamw(layer, 0.5, settings)
        for parameter in layer.parameters():
            parameter.grad = torch.zeros_like(parameter)
        take_step(optimizer, 0.5)
        assert layer.weight.flatten().tolist() == pytest.approx([0.95] * 6)
        assert layer.bias.tolist() == pytest.approx([0.95 if decays else 1.0] * 2)


MUON = ("learner.optimizer=muon", "learner.weight_decay=0.1", "learner.decay_vectors=false")


def test_muon_moves_the_matrices_of_layers_as_torchs_own_and_adamw_everything_else() -> None:
    trained, still = learner(*MUON, "learner.max_grad_norm=1e9"), learner(*MUON)
    optimizer = trained.optimizer
    assert isinstance(optimizer, MuonWithAdamW)
    names = {parameter: name for name, parameter in trained.policy.model.named_parameters()}
    by_muon = {names[parameter] for group in optimizer.muon.param_groups for parameter in group["params"]}
    by_adamw = {names[parameter] for group in optimizer.param_groups for parameter in group["params"]}
    assert by_muon | by_adamw == set(names.values())
    assert not by_muon & by_adamw
    assert all("layers" in name and name.endswith("proj.weight") for name in by_muon)
    assert {name for name in by_adamw if "embed" in name or "norm" in name or "bias" in name}

    before = weights(still)
    gradients: dict[str, torch.Tensor] = {}
    optimizer.register_step_pre_hook(
        lambda *_: gradients.update({names[p]: p.grad.clone() for p in names if p.grad is not None})
    )
    trained.update(shaped(trained, sampled()))
    name = sorted(by_muon)[0]
    alone = torch.nn.Parameter(before[name].clone())
    alone.grad = gradients[name]
    rate = trained.config.learner.lr
    torch.optim.Muon([alone], rate, 0.1, adjust_lr_fn="match_rms_adamw").step()
    torch.testing.assert_close(weights(trained)[name], alone.detach())


def test_muon_leaves_every_table_of_embeddings_to_adamw() -> None:
    config = GPT2Config(vocab_size=8, n_positions=8, n_embd=4, n_layer=1, n_head=1)
    model, settings = GPT2LMHeadModel(config), learner(*MUON).config.learner
    optimizer = muon(model, 1e-3, settings)
    by_muon = {parameter for group in optimizer.muon.param_groups for parameter in group["params"]}
    assert model.transformer.h[0].attn.c_attn.weight in by_muon
    assert not by_muon & {model.transformer.wte.weight, model.transformer.wpe.weight}


def test_the_average_follows_the_weights_of_every_optimiser_step() -> None:
    of = learner("learner.ema=0.75", "learner.global_batch_prompts=1", "learner.lr=0.01")
    expected = {name: weight.double() for name, weight in weights(of).items()}
    seen: list[dict[str, torch.Tensor]] = []
    of.optimizer.register_step_post_hook(lambda *_: seen.append({n: w.double() for n, w in weights(of).items()}))
    of.update(shaped(of, sampled()))
    assert len(seen) == 2
    for step in seen:
        expected = {name: 0.75 * mean + 0.25 * step[name] for name, mean in expected.items()}
    for name, mean in of.average.items():
        torch.testing.assert_close(mean.double(), expected[name], atol=1e-7, rtol=1e-6)
    assert not equal(of.average, weights(of))


def test_8_bits_move_weights_about_as_32_do() -> None:
    pytest.importorskip("bitsandbytes")
    whole, small = (learner(f"learner.optimizer={name}", "learner.lr=0.001") for name in ("adamw", "adamw_8bit"))
    before = weights(whole)
    batch = shaped(whole, sampled())
    for each in (whole, small):
        each.update(batch)
    moved = [torch.cat([(w - before[n]).flatten() for n, w in weights(each).items()]) for each in (whole, small)]
    assert torch.nn.functional.cosine_similarity(*moved, dim=0) > 0.95


def test_what_cannot_be_had_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes.optim", None)
    with pytest.raises(ConfigError, match=r"adamw_8bit needs the package bitsandbytes: pip install bitsandbytes"):
        adamw_8bit(torch.nn.Linear(2, 2), 0.1, LearnerConfig())

    def no_compiler(*_: object) -> None:
        raise RuntimeError("no compiler is found\n(a trace)")

    monkeypatch.setattr(torch, "compile", no_compiler)
    with pytest.raises(
        ConfigError, match=r"^learner.compile: torch.compile fails here: RuntimeError: no compiler is .*$"
    ):
        learner("learner.compile=true")


@pytest.mark.slow
def test_a_compiled_decoder_gives_the_same_losses() -> None:
    """Within 1e-5, of passes that differ in length; the weights afterwards within what Adam makes of that."""
    plain, compiled = learner(), learner("learner.compile=true")
    for seed in (0, 1):
        batch = shaped(plain, rows([[1, 0, 1, 0], [0, 0, 1, 0]], seed=seed))
        results = [each.update(batch).metrics for each in (plain, compiled)]
        for name in ("actor/pg_loss", "actor/grad_norm"):
            assert results[1][name] == pytest.approx(results[0][name], abs=1e-5)
    measured = [each.experience(batch).tensor("old_log_probs") for each in (plain, compiled)]
    torch.testing.assert_close(*measured, atol=1e-3, rtol=0)
