"""The warm start of tiny-vision: a small Qwen2-VL that answers questions about pictures, often wrongly.

Covers: training tokenizer and model, measuring the result, writing it all as one directory that transformers and
`ares train` read. Does not cover: reinforcement. Rebuild the shipped checkpoint with `ares warmstart tiny-vision`; the
same seed is bit-identical on the same machine.

Training and measuring use the learner's model and the reference engine, as runs do.
"""

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch
from torch import Tensor
from transformers import Qwen2Tokenizer, Qwen2VLForConditionalGeneration

from algorithms.keys import derive_seed
from ares.config import DataConfig
from ares.data import MARK, MediaReader, Vision, content_hash, in_parts, load_problems
from ares.engines import Request, SamplingSettings, VisionEngine
from ares.models import VisionLanguageModel
from ares.step import token_batch
from examples.tiny.lessons import Lesson, one_thread, teach
from examples.tiny.measurement import SampledAccuracy, sampled_accuracy, share
from examples.tiny.model import Progress
from examples.tiny.problems.arithmetic import extract_answer
from examples.tiny.problems.pictures import IMAGE, SIDE, split_problems, taught
from examples.tiny.problems.sets import write_pictures
from examples.tiny.vision_model import IMAGE_PAD, build_vision_model, image_processor, vision_tokenizer

NAME, FOLDER = "tiny-vision", "vision"
TRAIN_PROBLEMS, HELDOUT_PROBLEMS = 1000, 160
TOKENIZER_EXAMPLES = 8000
MAX_NEW_TOKENS = 32
REPORT_NAME = "warmstart.json"
LESSONS = (Lesson(400, 4e-3, errs=False), Lesson(200, 2e-3, errs=True))
DATA = DataConfig(train="train.jsonl")
COLUMNS = ["prompt_token_ids", "token_ids", "log_probs", "slot", "sample", "media_references"]


@dataclass(frozen=True)
class VisionMeasurement(SampledAccuracy):
    """Held-out responses at temperature 1, and the greedy ones."""

    greedy_accuracy: float


@dataclass(frozen=True)
class Report:
    """What was trained, how, and the results."""

    name: str
    seed: int
    parameters: int
    tower_parameters: int
    vocab_size: int
    lessons: tuple[Lesson, ...]
    losses: list[float]
    heldout: VisionMeasurement


def warmstart(
    out_dir: Path | str, *, seed: int = 0, lessons: tuple[Lesson, ...] = LESSONS, progress: Progress | None = None
) -> Report:
    """Build tiny-vision in `out_dir`: weights, tokenizer, image processor, train.parquet, heldout.parquet,
    warmstart.json.

    Runs on one thread and leaves the global random generators as they were.
    """
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    split = split_problems(rng, train=TRAIN_PROBLEMS, heldout=HELDOUT_PROBLEMS)
    write_pictures(out / "train.parquet", "train", split.train)
    write_pictures(out / "heldout.parquet", "heldout", split.heldout)
    with one_thread(), TemporaryDirectory() as pictures:
        examples = taught(rng, TOKENIZER_EXAMPLES)
        tokenizer = vision_tokenizer(
            text for problem, response in examples for text in (problem.prompt.removeprefix(IMAGE), response)
        )
        tokenizer.save_pretrained(out)
        image_processor().save_pretrained(out)
        model = build_vision_model(tokenizer, torch.Generator().manual_seed(seed))
        model.save_pretrained(out)  # MediaReader and VisionEngine read the configuration from there
        losses = teach(model, lessons, _imitation(model, tokenizer, out, Path(pictures), rng), progress)
        heldout = measure(model, tokenizer, out, "heldout", Path(pictures))
    report = Report(
        name=NAME,
        seed=seed,
        parameters=model.num_parameters(),
        tower_parameters=sum(parameter.numel() for parameter in model.model.visual.parameters()),
        vocab_size=len(tokenizer),
        lessons=lessons,
        losses=losses,
        heldout=heldout,
    )
    model.save_pretrained(out)
    (out / REPORT_NAME).write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    return report


def _imitation(
    model: Qwen2VLForConditionalGeneration, tokenizer: Qwen2Tokenizer, folder: Path, pictures: Path, rng: random.Random
) -> Callable[[Lesson], Tensor]:
    """The loss (nats a token) of imitating a batch of fresh examples; trains the vision tower too."""
    policy = VisionLanguageModel(model, torch.float32, MediaReader(str(folder), DATA))
    policy.packs = False  # rows are of nearly one length: side by side they would cost more
    asked: dict[str, list[int]] = {}

    def loss(lesson: Lesson) -> Tensor:
        rows: list[tuple[Any, ...]] = []
        for problem, response in taught(rng, lesson.batch_size, lesson.errs):
            if problem.prompt not in asked:
                asked[problem.prompt] = _asked(tokenizer, problem.prompt)
            answer = tokenizer(response + tokenizer.eos_token)["input_ids"]
            file = pictures / f"{problem.shown}-{problem.look}.png"
            file.write_bytes(problem.picture)
            reference = f"{file}{MARK}{content_hash(problem.picture)}"
            rows.append((asked[problem.prompt], answer, [0.0] * len(answer), len(rows), 0, [reference]))
        batch = policy.on_device(token_batch(pd.DataFrame(rows, columns=COLUMNS), tokenizer.pad_token_id))
        return -policy.token_log_probs(batch, temperature=1.0).log_probs.mean()

    return loss


def _asked(tokenizer: Qwen2Tokenizer, prompt: str) -> list[int]:
    """Token ids of a prompt, with a placeholder token per cell of the picture."""
    messages, _ = in_parts([{"role": "user", "content": prompt}])
    text = str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
    return tokenizer(text.replace(IMAGE_PAD, IMAGE_PAD * SIDE**2), add_special_tokens=False)["input_ids"]


def measure(
    model: Qwen2VLForConditionalGeneration,
    tokenizer: Qwen2Tokenizer,
    folder: Path,
    name: str,
    pictures: Path,
    samples: int = 8,
) -> VisionMeasurement:
    """Sample every problem of folder/name.parquet `samples` times and once greedily."""
    loaded = load_problems(
        str(folder / f"{name}.parquet"), "", DATA, tokenizer, vision=Vision(str(folder), DATA, pictures)
    )
    loaded.write_embedded()
    problems = loaded.frame
    engine = VisionEngine(str(folder), "float32", "cpu", {tokenizer.eos_token_id}, tokenizer.pad_token_id, DATA)
    engine.load_weights(0, dict(model.named_parameters()))
    right = _right(engine, tokenizer, problems, samples, 1.0)
    accuracy = sampled_accuracy(right, [str(level) for level in problems["level"]])
    return VisionMeasurement(**vars(accuracy), greedy_accuracy=share(_right(engine, tokenizer, problems, 1, 0.0)))


def _right(
    engine: VisionEngine, tokenizer: Qwen2Tokenizer, problems: pd.DataFrame, samples: int, temperature: float
) -> list[bool]:
    rows = [row for row in problems.to_dict("records") for _ in range(samples)]
    requests = [
        Request(row["prompt_token_ids"], derive_seed("measure", row["id"], place), tuple(row["media_references"]))
        for place, row in enumerate(rows)
    ]
    completions = engine.generate(requests, SamplingSettings(temperature, 1.0, MAX_NEW_TOKENS))
    texts = tokenizer.batch_decode([each.token_ids.tolist() for each in completions], skip_special_tokens=True)
    return [str(extract_answer(text)) == row["answer"] for text, row in zip(texts, rows, strict=True)]
