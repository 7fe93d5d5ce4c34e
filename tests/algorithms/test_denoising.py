"""Dream-style denoising: recorded numbers, and properties of every order."""

from types import SimpleNamespace

import pytest
import torch

from algorithms.denoising import chosen_places, denoise, propose, uncovered_share
from algorithms.keyed_sampling import keyed_uniform
from algorithms.settings import DenoisingSettings

MASK = 8


def how(steps, temperature=1.0, top_p=0.95, alg="entropy", alg_temp=0.0):
    return DenoisingSettings(steps=steps, temperature=temperature, top_p=top_p, alg=alg, alg_temp=alg_temp)


def random_model(places, sharpness=1.0):
    """Distributions that depend on the canvas behind a prompt of one token, with the mask among the likely tokens."""
    generator = torch.Generator().manual_seed(1)
    table = 2 * torch.randn(9, 9, generator=generator)
    table[:, MASK] += 1.0
    place = torch.randn(places + 1, 9, generator=generator)
    return lambda ids: SimpleNamespace(logits=sharpness * (table[ids[:, 1:]].mean(1, keepdim=True) + place))


def denoised(model, rows, places, settings):
    prompts = torch.zeros(rows, 1, dtype=torch.long)
    return denoise(model, prompts, torch.ones_like(prompts), torch.arange(rows), places, settings, MASK)


def test_the_recorded_candidates(golden):
    for case in golden("dream_generation"):
        if case["fn"] == "sample_t0_neg_entropy":
            logits = torch.tensor(case["inputs"]["logits"])
            proposal = propose(logits, torch.zeros(len(logits)), how(1, temperature=0.0, top_p=1.0))
            assert proposal.tokens.tolist() == case["expected"]["x0"]
            torch.testing.assert_close(
                proposal.confidence, torch.tensor(case["expected"]["confidence"]), atol=1e-5, rtol=1e-5
            )


def test_the_recorded_generations(golden):
    for case in golden("dream_generation"):
        if case["fn"] == "diffusion_generate_entropy_t0":
            inputs = case["inputs"]
            one, two, place = (torch.tensor(inputs[name]) for name in "EPQ")
            prompt = torch.tensor(inputs["prompt"])
            shape = (len(prompt), inputs["new_tokens"])
            seen = []

            def model(whole, one=one, two=two, place=place, seen=seen):
                seen.append(whole.tolist())
                return SimpleNamespace(
                    logits=one[whole] + 0.5 * two[torch.cat([whole[:, 1:], whole[:, -1:]], 1)] + place
                )

            settings, seeds = how(inputs["steps"], temperature=0.0, top_p=1.0), torch.arange(len(prompt))
            uncovered = denoise(model, prompt, torch.ones_like(prompt), seeds, shape[1], settings, inputs["mask_id"])
            assert torch.cat([prompt, uncovered.tokens], 1).tolist() == case["expected"]["final"]
            history = case["expected"]["history"]  # the canvas after each step; steps that uncover nothing repeat it
            distinct = [state for before, state in zip([None, *history], history, strict=False) if state != before]
            assert distinct[-1] == case["expected"]["final"]
            start = torch.cat([prompt, torch.full(shape, inputs["mask_id"])], 1).tolist()
            assert seen == [state for state in [start, *distinct][:-1] if state is not None][-len(seen) :]


@pytest.mark.parametrize("alg", ["entropy", "maskgit_plus", "topk_margin", "origin"])
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("alg_temp", [0.0, 0.3])
@pytest.mark.parametrize("steps", [1, 3, 20])
def test_no_mask_is_left(alg, temperature, alg_temp, steps):
    canvas = denoised(random_model(7), 4, 7, how(steps, temperature, 0.9, alg, alg_temp))
    assert (canvas.tokens != MASK).all()
    assert (canvas.log_probs <= 0).all()
    assert (canvas.entropies >= 0).all()


def test_the_share_of_each_step_leaves_the_times_as_places():
    masked, left = 1000.0, [1000.0]
    for step in range(10):
        masked -= masked * uncovered_share(step, 10)
        left.append(masked)
    assert left == pytest.approx([1000 * (1 - 0.0999 * i) for i in range(10)] + [0.0], abs=0.01)


def test_confidence_of_each_order():
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.2]]))
    proposal = {
        alg: float(propose(logits, torch.tensor([0.6]), how(1, 1.0, 1.0, alg)).confidence)
        for alg in ("maskgit_plus", "topk_margin", "entropy")
    }
    assert proposal == pytest.approx({"maskgit_plus": 0.3, "topk_margin": 0.2, "entropy": -1.02965}, abs=1e-4)


def test_the_nucleus_is_sampled_and_the_mask_never_is():
    logits = torch.log(torch.tensor([0.45, 0.3, 0.15, 0.1])).expand(2000, 4)
    uniform = (torch.arange(2000) + 0.5) / 2000
    tokens = propose(logits, uniform, how(1, 1.0, 0.7)).tokens
    assert torch.bincount(tokens, minlength=4).tolist() == [1200, 800, 0, 0]
    tokens = propose(logits, uniform, how(1, 1.0, 1.0), mask_id=0).tokens
    assert torch.bincount(tokens, minlength=4).tolist() == pytest.approx([0, 1091, 545, 364], abs=1)
    proposal = propose(logits, uniform, how(1, 1.0, 0.7))
    torch.testing.assert_close(proposal.log_probs[0], torch.tensor(0.45).log())  # of the distribution before top-p


@pytest.mark.parametrize("mask_logit", [10.0, 300.0])
def test_where_the_mask_is_the_whole_nucleus_the_others_are_drawn_from(mask_logit):
    logits = torch.tensor([[0.0, 5.0, 5.0, mask_logit, -9.0]]).repeat(2, 1)
    for temperature, expected in ((0.0, [1, 1]), (1.0, [1, 2])):
        settings = how(1, temperature=temperature)
        assert propose(logits, torch.tensor([0.3, 0.7]).double(), settings, mask_id=3).tokens.tolist() == expected


def test_places_are_taken_by_confidence_and_equal_ones_from_the_left():
    confidence = torch.tensor([[0.1, 0.9, 0.5, 0.9]])
    masked = torch.tensor([[True, True, True, False]])
    settings = how(4)
    uniform = torch.full((1, 4), 0.5)
    assert chosen_places(confidence, masked, 0.7, settings, uniform).tolist() == [[False, True, True, False]]
    assert chosen_places(torch.zeros(1, 4), masked, 0.34, settings, uniform).tolist() == [[True, False, False, False]]


def test_sampled_places_follow_the_confidence():
    count = 20000
    settings = how(2, alg_temp=1.0)
    uniform = torch.rand(count, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    confidence = torch.log(torch.tensor([[0.8, 0.2]])).expand(count, 2)
    taken = chosen_places(confidence, torch.ones(count, 2, dtype=torch.bool), 0.5, settings, uniform)
    assert (taken.sum(1) == 1).all()
    assert float(taken[:, 0].double().mean()) == pytest.approx(0.8, abs=0.015)


# ---- blocks and a threshold ------------------------------------------------------------------------------------------


def replay(settings, sharpness=2.0):
    """The canvas of 5 × 12 positions before each pass, and what came of it."""
    seen, model = [], random_model(12, sharpness)

    def noted(ids):
        seen.append(ids[:, 1:])
        return model(ids)

    return seen, denoised(noted, 5, 12, settings)


@pytest.mark.parametrize("alg", ["entropy", "origin"])
@pytest.mark.parametrize("threshold", [None, 0.5])
def test_a_block_is_full_before_any_place_to_its_right_is_uncovered(alg, threshold):
    seen, canvas = replay(how(9, alg=alg).model_copy(update={"block": 4, "threshold": threshold}))
    assert (canvas.tokens != MASK).all()
    for before in [*seen, canvas.tokens]:
        covered = (before == MASK).view(5, 3, 4)
        first = covered.any(2).int().cumsum(1) == 1  # from the first block with a mask on …
        later = first.cumsum(1) > 1
        assert covered[later].all()  # … all that follow it are untouched
    assert len(seen) <= 9


def test_blocks_and_steps_that_do_not_divide_are_refused():
    for wrong in ({"block": 5}, {"block": 4, "steps": 10}):
        with pytest.raises(ValueError, match=r"12 positions in .* cannot be cut into blocks"):
            replay(how(9).model_copy(update=wrong))


@pytest.mark.parametrize("block", [None, 4])
@pytest.mark.parametrize("sharpness", [0.3, 3.0])
def test_a_pass_uncovers_what_exceeds_the_threshold_and_one_place_at_least(block, sharpness):
    """With as many steps as places: Fast-dLLM's rule (arXiv 2505.22618, algorithm 1), written out row by row."""
    settings = how(12, 1.0, 1.0).model_copy(update={"threshold": 0.6, "block": block})
    model, canvas, passes = random_model(12, sharpness), torch.full((5, 12), MASK), [0] * 5
    for step in range(12):
        token_draws = keyed_uniform(torch.arange(5)[:, None], 2 * step * 12 + torch.arange(12))
        before, logits = canvas.clone(), model(torch.cat([torch.zeros_like(canvas[:, :1]), canvas], 1)).logits
        for row in range(5):
            last = 12 if block is None else block * (step // 4 + 1)
            places = [place for place in range(last) if before[row, place] == MASK]
            if not places:
                continue
            passes[row] += 1
            proposed = {
                place: propose(logits[row, place][None], token_draws[row, place][None], settings, MASK)
                for place in places
            }
            best = max(places, key=lambda place: (float(proposed[place].confidence), -place))
            for place in places:
                if place == best or float(proposed[place].log_probs.exp()) > 0.6:
                    canvas[row, place] = proposed[place].tokens[0]
    _, replayed = replay(settings, sharpness)
    assert replayed.tokens.tolist() == canvas.tolist()
    assert replayed.passes.tolist() == passes
    assert (max(passes) < 10) == (sharpness > 1)


def test_without_a_threshold_each_row_takes_every_pass_that_uncovers_something():
    assert replay(how(6))[1].passes.tolist() == [6] * 5
    assert replay(how(1))[1].passes.tolist() == [1] * 5
