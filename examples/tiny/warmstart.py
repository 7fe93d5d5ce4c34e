"""The warm start of a tiny model, which `ares train tiny-math` or `tiny-code` starts from.

Covers: generating a task's data, training tokenizer and model on worked examples, measuring the result and writing all
of it as one directory that transformers and `ares train` read. Does not cover: reinforcement. Rebuild a shipped
checkpoint with `ares warmstart TASK`; the same seed is bit-identical on the same machine.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Tokenizer

from examples.tiny.lessons import one_thread
from examples.tiny.measurement import Measurement
from examples.tiny.model import MAX_POSITIONS, FitSettings, Progress, Turn, build_model, copy_what_is_attended_to, fit
from examples.tiny.problems.sets import Split, write_problems
from examples.tiny.program_measurement import ProgramMeasurement
from examples.tiny.reasoning_measurement import ReasoningMeasurement
from examples.tiny.second_turns import Conversation, with_second_turns
from examples.tiny.tasks import MATH, TinyTask
from examples.tiny.tokenizer import build_tokenizer

REPORT_NAME = "warmstart.json"


@dataclass(frozen=True)
class WarmstartReport:
    """What was trained, how, and the results on the held-out prompts at temperature 1."""

    name: str
    seed: int
    parameters: int
    vocab_size: int
    fit: FitSettings
    examples: int
    max_new_tokens: int
    loss: float
    heldout: Measurement | ProgramMeasurement | ReasoningMeasurement
    path: Path

    def to_dict(self) -> dict[str, object]:
        """The report as written to warmstart.json (without the path)."""
        return {key: value for key, value in asdict(self).items() if key != "path"}


def warmstart(
    out_dir: Path | str,
    task: TinyTask = MATH,
    *,
    seed: int = 0,
    steps: int | None = None,
    progress: Progress | None = None,
) -> WarmstartReport:
    """Build a task in `out_dir`: weights, tokenizer, warmstart.json and, unless they are another task's, its problems
    as train.jsonl and heldout.jsonl.

    steps: of imitation; None: the task's own. Runs on one thread and does not touch the global random generators.
    Raises ValueError if steps < 1, SandboxUnavailable if programs cannot be judged.
    """
    settings = FitSettings(steps=task.steps if steps is None else steps, batch_size=task.batch_size)
    if settings.steps < 1:
        raise ValueError(f"a warm start takes at least 1 step, not {settings.steps}")
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    with one_thread():
        return _warmstart(out, task, seed, settings, progress)


def _warmstart(
    out: Path, task: TinyTask, seed: int, settings: FitSettings, progress: Progress | None
) -> WarmstartReport:
    rng = random.Random(seed)
    examples = settings.steps * settings.batch_size  # each is used once
    split = task.split(rng, examples, task.train_problems, task.heldout_problems)
    tokenizer = build_tokenizer(
        task.tokenizer_texts(split), task.vocab_size, max_length=MAX_POSITIONS, whole_words=task.whole_words
    )
    generator = torch.Generator().manual_seed(seed)
    model = build_model(tokenizer, generator)
    if task.copies:
        copy_what_is_attended_to(model, generator)
    loss = fit(
        model,
        _turns(tokenizer, task, split.examples, rng),
        settings,
        pad_token_id=tokenizer.pad_token_id,
        rng=rng,
        progress=progress,
    )
    report = WarmstartReport(
        name=task.name,
        seed=seed,
        parameters=model.num_parameters(),
        vocab_size=len(tokenizer),
        fit=settings,
        examples=len(split.examples),
        max_new_tokens=task.max_new_tokens,
        loss=loss,
        heldout=task.measure(
            model,
            tokenizer,
            encode_prompts(tokenizer, [problem.prompt for problem in split.heldout]),
            split.heldout,
            max_new_tokens=task.max_new_tokens,
        ),
        path=out,
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    _write_sets(out, task, split)
    (out / REPORT_NAME).write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    return report


def _write_sets(out: Path, task: TinyTask, split: Split[Any]) -> None:
    if task.writes_problems:
        write_problems(out / "train.jsonl", "train", split.train)
        write_problems(out / "heldout.jsonl", "heldout", split.heldout)
    for level in sorted({problem.level for problem in split.heldout}) if task.heldout_by_level else []:
        of_level = [problem for problem in split.heldout if problem.level == level]
        write_problems(out / f"heldout-{level}.jsonl", "heldout", of_level)


def _turns(
    tokenizer: Qwen2Tokenizer, task: TinyTask, examples: Sequence[tuple[Any, str]], rng: random.Random
) -> list[Turn]:
    """Worked examples as token ids of a conversation and of the response to imitate."""
    if task.second_turns:
        worked = with_second_turns(examples, task.second_turns, rng)
    else:
        worked = [(_asked(problem.prompt), response) for problem, response in examples]
    prompts = encode_conversations(tokenizer, [conversation for conversation, _ in worked])
    responses = tokenizer([response + tokenizer.eos_token for _, response in worked])["input_ids"]
    return list(zip(prompts, responses, strict=True))


def encode_prompts(tokenizer: Qwen2Tokenizer, prompts: Sequence[str]) -> list[list[int]]:
    """Token ids of the prompts as user turns, ready for the answer."""
    return encode_conversations(tokenizer, [_asked(prompt) for prompt in prompts])


def encode_conversations(tokenizer: Qwen2Tokenizer, conversations: Sequence[Conversation]) -> list[list[int]]:
    """Token ids of conversations, ready for the next answer."""
    rendered = [
        tokenizer.apply_chat_template(conversation, add_generation_prompt=True, tokenize=False)
        for conversation in conversations
    ]
    return tokenizer(rendered, add_special_tokens=False)["input_ids"]


def _asked(prompt: str) -> Conversation:
    return [{"role": "user", "content": prompt}]
