"""The warm start, and the checkpoint that is shipped as its result."""

import json
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen2ForCausalLM, Qwen2Tokenizer

from examples.tiny import CHECKPOINTS
from examples.tiny.measurement import Measurement, measure, sample
from examples.tiny.problems.arithmetic import expressions_in, extract_answer
from examples.tiny.program_measurement import ProgramMeasurement
from examples.tiny.tasks import MATH
from examples.tiny.tokenizer import build_tokenizer
from examples.tiny.warmstart import WarmstartReport, encode_prompts, warmstart

SHIPPED = CHECKPOINTS / "math"
SHORT = 4


def measured_on_a_few(
    model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer, prompts: Any, problems: Any, **how: Any
) -> Measurement | ProgramMeasurement:
    return MATH.measure(model, tokenizer, prompts[:16], problems[:16], **how)


BRIEF = replace(MATH, measure=measured_on_a_few)
"""tiny-math, but for the time it takes to measure what a few steps have taught."""


@pytest.fixture(scope="module")
def tokenizer() -> Qwen2Tokenizer:
    return AutoTokenizer.from_pretrained(SHIPPED)


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    return AutoModelForCausalLM.from_pretrained(SHIPPED)


def problems(directory: Path, name: str) -> list[dict]:
    return [json.loads(line) for line in (directory / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> WarmstartReport:
    return warmstart(tmp_path_factory.mktemp("short"), BRIEF, steps=SHORT)


def test_the_same_seed_gives_the_same_bits_and_leaves_the_global_generators(
    short: WarmstartReport, tmp_path: Path
) -> None:
    torch.manual_seed(1)
    random.seed(1)
    threads, before, before_random = torch.get_num_threads(), torch.get_rng_state(), random.getstate()
    calls: list[tuple[int, int]] = []
    again = warmstart(tmp_path, BRIEF, steps=SHORT, progress=lambda step, steps, _: calls.append((step, steps)))

    assert torch.equal(torch.get_rng_state(), before)
    assert random.getstate() == before_random
    assert torch.get_num_threads() == threads
    assert calls == [(step + 1, SHORT) for step in range(SHORT)]
    assert again.to_dict() == short.to_dict()
    files = sorted(path.name for path in short.path.iterdir())
    assert files == sorted(path.name for path in tmp_path.iterdir())
    for name in files:
        assert (short.path / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_another_seed_is_another_model(short: WarmstartReport, tmp_path: Path) -> None:
    warmstart(tmp_path, BRIEF, seed=1, steps=1)
    for name in ("model.safetensors", "train.jsonl", "heldout.jsonl"):
        assert (short.path / name).read_bytes() != (tmp_path / name).read_bytes(), name


def test_no_steps_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1 step"):
        warmstart(tmp_path, steps=0)


def test_the_shipped_checkpoint_has_what_a_short_one_has(short: WarmstartReport) -> None:
    assert {path.name for path in SHIPPED.iterdir()} == {path.name for path in short.path.iterdir()}
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 700_000


def test_the_shipped_data_is_what_the_seed_generates(short: WarmstartReport) -> None:
    for name in ("train.jsonl", "heldout.jsonl"):
        assert (short.path / name).read_bytes() == (SHIPPED / name).read_bytes()


def test_the_shipped_data() -> None:
    train, heldout = problems(SHIPPED, "train.jsonl"), problems(SHIPPED, "heldout.jsonl")
    assert all(set(row) == {"id", "prompt", "answer", "level"} for row in train + heldout)
    assert len({row["id"] for row in train + heldout}) == 1160
    assert Counter(row["level"] for row in heldout) == dict.fromkeys((1, 2, 3, 4), 40)
    assert Counter(row["level"] for row in train) == dict.fromkeys((1, 2, 3, 4), 250)
    measured = set().union(*(expressions_in(row["prompt"]) for row in heldout))
    assert measured.isdisjoint(set().union(*(expressions_in(row["prompt"]) for row in train)))
    for row in train + heldout:
        assert int(row["answer"]) == eval(max(expressions_in(row["prompt"])))


def test_the_shipped_model(model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer) -> None:
    config = model.config
    assert config.model_type == "qwen2"
    assert config.hidden_size // config.num_attention_heads == 32
    assert config.tie_word_embeddings
    assert model.dtype == torch.float32
    assert model.num_parameters() < 130_000
    assert config.vocab_size == len(tokenizer)
    assert config.eos_token_id == tokenizer.eos_token_id == model.generation_config.eos_token_id
    assert config.pad_token_id == tokenizer.pad_token_id == model.generation_config.pad_token_id


def test_the_shipped_tokenizer(tokenizer: Qwen2Tokenizer) -> None:
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.mask_token) == ("<|im_end|>", "<|endoftext|>", "[MASK]")
    assert len({tokenizer.eos_token_id, tokenizer.pad_token_id, tokenizer.mask_token_id}) == 3
    assert tokenizer.padding_side == "left"
    turns = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+2=?"}]
    rendered = tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
    assert rendered == (
        "<|im_start|>system\nAdd.<|im_end|>\n<|im_start|>user\n1+2=?<|im_end|>\n<|im_start|>assistant\n"
    )
    response = "<think> steps: 2*6=12. wait, 2*6=13. </think> \\boxed{13}"
    tokens = tokenizer.tokenize(response)
    assert {"<think>", "</think>", "\\boxed{"} <= set(tokens)
    assert "12" not in tokens  # digits are tokens of their own, so that a model can learn to carry
    for text in (response, "naïve ✓ 漢字\n\ttext"):
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert tokenizer.decode(tokenizer(response + "<|im_end|>")["input_ids"], skip_special_tokens=True) == response


def test_a_tokenizer_without_whole_words() -> None:
    tokenizer = build_tokenizer(["one two three"] * 10, 270, max_length=64)
    assert len(tokenizer) <= 270
    assert tokenizer.decode(tokenizer("two one")["input_ids"]) == "two one"


def test_the_shipped_report_is_in_the_range_that_reinforcement_needs() -> None:
    report = json.loads((SHIPPED / "warmstart.json").read_text(encoding="utf-8"))
    heldout = report["heldout"]
    assert (report["seed"], report["fit"]["steps"], heldout["samples_per_prompt"]) == (0, 1000, 8)
    assert 0.30 <= heldout["accuracy"] <= 0.45
    assert min(heldout["bucket_shares"].values()) >= 0.05
    assert sum(heldout["bucket_shares"].values()) == pytest.approx(1)
    # Most tokens are certain, and a few are decisions: which style, whether to check, what the number is.
    assert heldout["entropy_quantiles"]["0.5"] < 0.05
    assert heldout["entropy_quantiles"]["0.95"] > 0.6
    assert heldout["decision_share"] > 0.05


def test_the_shipped_model_does_as_its_report_says(model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer) -> None:
    rows = problems(SHIPPED, "heldout.jsonl")
    measured = measure(
        model,
        tokenizer,
        encode_prompts(tokenizer, [row["prompt"] for row in rows]),
        [partial(lambda answer, text: extract_answer(text) == answer, int(row["answer"])) for row in rows],
        [str(row["level"]) for row in rows],
        samples_per_prompt=4,
        seed=5,
    )
    assert 0.30 <= measured.accuracy <= 0.45
    assert min(measured.bucket_shares.values()) > 0.02
    assert measured.finished > 0.97
    assert measured.mean_length < 40


def test_measuring_does_not_depend_on_the_padding(model: Qwen2ForCausalLM, tokenizer: Qwen2Tokenizer) -> None:
    """A prompt that stands beside a longer one is continued with the same entropy as alone."""
    short_prompt, long_prompt = encode_prompts(tokenizer, ["3+4=?", "12*3-4+5 is what? Now think about it."])

    def first_entropy(prompts: list[list[int]]) -> float:
        generator = torch.Generator().manual_seed(0)
        drawn = sample(model, tokenizer, prompts, max_new_tokens=1, generator=generator)
        return float(drawn.entropy[0, 0])

    assert first_entropy([short_prompt, long_prompt]) == pytest.approx(first_entropy([short_prompt]), abs=1e-5)
