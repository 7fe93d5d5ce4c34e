"""The published trainer: recorded numbers, and its methods on a small real model and tokenizer."""

from types import SimpleNamespace

import pytest
import torch

from algorithms.coupled_sampling import version_masks
from algorithms.published.coupled_grpo import DiffuGRPOConfig, DiffuGRPOTrainer

PAD, END, MASK, FIRST = 0, 1, 2, 3
WORDS = 9


class Tokenizer:
    """Words are letters a–i; `$` ends."""

    pad_token_id, eos_token_id, mask_token_id = PAD, END, MASK

    def __call__(self, texts, return_tensors, padding, padding_side, add_special_tokens):
        assert (return_tensors, padding, padding_side, add_special_tokens) == ("pt", True, "left", False)
        rows = [[FIRST + ord(letter) - ord("a") for letter in text] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([[PAD] * (width - len(row)) + row for row in rows])
        return {"input_ids": ids, "attention_mask": (ids != PAD).long()}

    def apply_chat_template(self, conversations, tokenize, add_generation_prompt):
        assert (tokenize, add_generation_prompt) == (False, True)
        return ["".join(message["content"] for message in messages) + "i" for messages in conversations]

    def batch_decode(self, rows, skip_special_tokens):
        assert skip_special_tokens
        return ["".join(chr(ord("a") + token - FIRST) for token in row if token >= FIRST) for row in rows]


class Model(torch.nn.Module):
    """Logits from the mean of the attended tokens and the position; masked padding has no influence."""

    def __init__(self, seed=0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        size = FIRST + WORDS
        self.table = torch.nn.Parameter(torch.randn(size, size, generator=generator))
        self.own = torch.nn.Parameter(torch.randn(size, size, generator=generator))

    def forward(self, input_ids, attention_mask=None, position_ids=None):
        seen = torch.ones_like(input_ids) if attention_mask is None else attention_mask[:, 0, -1].long()
        mean = (self.table[input_ids] * seen[..., None]).sum(1, keepdim=True) / seen.sum(1)[:, None, None]
        return SimpleNamespace(logits=mean + self.own[input_ids])


def versions_of(batch, prompt_index, mask_id, mask):
    """Masked where `mask` is true, of the completion alone, beside the two others."""
    return [batch.masked_fill(masked & ~prompt_index, mask_id) for masked in version_masks(mask)]


def trainer(*functions, **settings):
    chosen = {"num_generations": 3, "max_completion_length": 5, "diffusion_steps": 5, "generation_batch_size": 2}
    args = DiffuGRPOConfig(**chosen | settings)
    return DiffuGRPOTrainer(Model(), list(functions) or [vowels], args, Tokenizer(), Model(1))


def vowels(prompts, completions, **columns):
    return [float(sum(letter in "aei" for letter in text)) for text in completions]


def rows(*prompts, n=3, **columns):
    return [{"prompt": prompt} | columns for prompt in prompts for _ in range(n)]


def test_the_recorded_log_probs(golden):
    for case in golden("coupled_per_token_logps"):
        inputs = case["inputs"]
        one, two = torch.tensor(inputs["toy_E"]), torch.tensor(inputs["toy_P"])

        def model(ids, one=one, two=two):
            before = torch.cat([ids[:, :1], ids[:, :-1]], 1)
            return SimpleNamespace(logits=one[ids] + 0.5 * two[before] + 0.01 * one[ids].cumsum(1))

        grpo = trainer()
        grpo.processing_class = SimpleNamespace(mask_token_id=inputs["mask_token_id"])
        recorded = iter(inputs["masks"])

        def recorded_masks(batch, prompt_index, mask_id, seed=None, accumulate=False, recorded=recorded):
            given = next(recorded)
            mask = torch.tensor(given["completion_mask"])
            return versions_of(batch, prompt_index, mask_id, mask), given["weights"], mask

        grpo.forward_process = recorded_masks
        iterations = inputs["num_iterations"]
        ids = torch.tensor(inputs["input_ids"]).expand(iterations, -1, -1)
        log_probs = grpo._get_per_token_logps(model, ids, inputs["logits_to_keep"], list(range(iterations)))
        assert list(log_probs.shape) == case["expected_shape"]
        assert log_probs.dtype is torch.float32
        torch.testing.assert_close(log_probs, torch.tensor(case["expected"]), atol=2e-4, rtol=0)


def test_wrong_dimensions_and_a_wrong_number_of_seeds_are_named():
    grpo = trainer()
    with pytest.raises(ValueError, match="input_ids must be"):
        grpo._get_per_token_logps(grpo.model, torch.zeros(2, 6, dtype=torch.long), 3, [1])
    with pytest.raises(ValueError, match="and 1 mask seeds"):
        grpo._get_per_token_logps(grpo.model, torch.zeros(2, 2, 6, dtype=torch.long), 3, [1])


def test_padding_before_a_prompt_changes_nothing():
    grpo = trainer()
    ids = torch.tensor([[[5, 6, 7, 8, 9, 4]]])
    padded = torch.nn.functional.pad(ids, (3, 0), value=PAD)
    keep = 4
    mask = torch.tensor([[True, False, True, True]])

    def masks(batch, prompt_index, mask_id, seed=None, accumulate=False):
        whole = torch.nn.functional.pad(mask, (batch.shape[1] - keep, 0))
        return versions_of(batch, prompt_index, mask_id, whole), [1.0, 2.0, 2.0], whole

    grpo.forward_process = masks
    torch.testing.assert_close(
        grpo._get_per_token_logps(grpo.model, padded, keep, [1]),
        grpo._get_per_token_logps(grpo.model, ids, keep, [1]),
    )


@pytest.mark.parametrize("iterations", [1, 2])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_a_batch_is_generated_scored_and_compared(iterations, beta):
    def second(prompts, completions, answer, **columns):
        assert answer == ["x"] * 6
        return [None, 0.5, 0.0, None, None, None]

    grpo = trainer(vowels, second, num_iterations=iterations, beta=beta, reward_weights=[2.0, 1.0])
    batch = grpo._generate_and_score_completions(rows("abc", "g", answer="x"))
    assert batch["prompt_ids"].tolist() == [[3, 4, 5]] * 3 + [[PAD, PAD, 9]] * 3
    assert batch["prompt_mask"].tolist() == [[1, 1, 1]] * 3 + [[0, 0, 1]] * 3
    assert batch["completion_ids"].shape == batch["completion_mask"].shape == (6, 5)
    assert (batch["completion_ids"] != MASK).all()
    assert len(batch["mask_seeds"]) == iterations
    assert (batch["old_per_token_logps"] is None) == (iterations == 1)
    assert (batch["ref_per_token_logps"] is None) == (beta == 0)
    if iterations == 2:
        assert batch["old_per_token_logps"].shape == (6, 2, 5)
    torch.testing.assert_close(batch["advantages"].view(2, 3).sum(1), torch.zeros(2), atol=1e-5, rtol=0)
    assert grpo.metrics["completion_length"] == float(batch["completion_mask"].sum(1).float().mean())
    assert grpo.metrics["reward"] == pytest.approx(
        2 * grpo.metrics["rewards/vowels"] + 0.5 / 6, abs=1e-5
    )  # what does not apply counts nothing
    assert grpo.metrics["rewards/second"] == pytest.approx(0.25)


def test_a_canvas_is_denoised_in_as_many_steps_as_are_set():
    grpo, passes = trainer(diffusion_steps=4), []
    grpo.model.register_forward_hook(lambda *_: passes.append(1))
    grpo.args.diffusion_steps -= 1
    grpo._generate(torch.full((2, 4), FIRST), torch.ones(2, 4))
    assert len(passes) == 3


def test_what_follows_the_end_token_is_neither_rewarded_nor_learnt_from():
    texts = []

    def watch(prompts, completions, **columns):
        texts.extend(completions)
        return [0.0] * len(completions)

    grpo = trainer(watch)
    canvas = torch.tensor([[4, END, 5, 5, END], [END, 4, 4, 4, 4], [4, 5, 6, 7, 8]])
    grpo._generate = lambda ids, mask: canvas[: len(ids)] if len(ids) == 2 else canvas[2:]
    batch = grpo._generate_and_score_completions(rows("a"))
    assert texts == ["b", "", "bcdef"]
    assert batch["completion_mask"].tolist() == [[1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]


def test_chat_prompts_go_through_the_template_and_answers_come_as_messages():
    def read(prompts, completions, **columns):
        assert prompts[0][0]["role"] == "user"
        assert all(reply[0]["role"] == "assistant" for reply in completions)
        return [len(reply[0]["content"]) for reply in completions]

    grpo = trainer(read, max_prompt_length=2)
    batch = grpo._generate_and_score_completions(rows([{"role": "user", "content": "abc"}]))
    assert batch["prompt_ids"][0].tolist() == [5, 11]  # the last two tokens of "abci"


def test_mask_seeds_are_fixed_or_drawn_without_the_global_generator():
    state = torch.get_rng_state()
    drawn = [trainer(seed=seed)._generate_and_score_completions(rows("a")) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), state)
    assert drawn[0]["mask_seeds"] == drawn[1]["mask_seeds"] != drawn[2]["mask_seeds"]
    assert torch.equal(drawn[0]["completion_ids"], drawn[1]["completion_ids"])
    assert len(set(drawn[0]["mask_seeds"])) == 2
    assert trainer(random_masking=False)._generate_and_score_completions(rows("a"))["mask_seeds"] == [42, 42]


def log_probs_of(grpo, batch, rows, iteration):
    """Log-probs [B, K] of some rows as an update computes them, under the masks of one iteration."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)[rows][None]
    keep = batch["completion_ids"].shape[1]
    return grpo._get_per_token_logps(grpo.model, ids, keep, [batch["mask_seeds"][iteration]])[:, 0]


def test_each_iteration_has_its_own_masks():
    """At the weights that generated the batch, log-probs under an iteration's seed equal the old ones."""
    grpo = trainer(beta=0.0)
    batch = grpo._generate_and_score_completions(rows("abc", "ged"))
    one, other = (log_probs_of(grpo, batch, slice(None), iteration) for iteration in range(2))
    torch.testing.assert_close(torch.stack([one, other], 1), batch["old_per_token_logps"])
    assert not torch.allclose(one, other)


def test_micro_batches_share_the_masks_of_the_old_log_probs():
    grpo = trainer(beta=0.0, gradient_accumulation_steps=2)
    batch = grpo._generate_and_score_completions(rows("abc", "ged"))
    parts = [log_probs_of(grpo, batch, slice(start, start + 3), 1) for start in (0, 3)]
    torch.testing.assert_close(torch.cat(parts), batch["old_per_token_logps"][:, 1])


def test_a_function_scores_every_completion_and_has_a_weight():
    for functions, settings in (([lambda **columns: [1.0]], {}), ([vowels, vowels], {"reward_weights": [1.0]})):
        with pytest.raises(RuntimeError, match="invalid for input of size 1"):
            trainer(*functions, **settings)._generate_and_score_completions(rows("a"))
