"""The warm starts of tiny-diffusion and tiny-diffusion-hard: a small masked-diffusion model that writes functions of
one line, often wrongly.

Covers: training tokenizer and model, measuring the result, writing it all as one directory that transformers (once
ares.models is imported) and `ares train` read. Does not cover: reinforcement. Rebuild a shipped checkpoint with
`ares warmstart tiny-diffusion`; the same seed is bit-identical on the same machine.

Two lessons: right examples only, until the model copies names and constants from the prompt, then examples with many
errors. With the second kind alone it learns the errors' form long before it learns to copy.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers import Qwen2Tokenizer

from algorithms.denoising import DenoisingSettings, completion_logits, denoise_completions
from ares.engines import left_padded
from examples.tiny.lessons import Lesson, one_thread, teach
from examples.tiny.masked_model import MaskedModel, MaskedModelConfig
from examples.tiny.model import INITIALIZER_RANGE, Progress, copy_what_is_attended_to, initialised
from examples.tiny.problems.one_liners import (
    FAMILIES,
    PAIRS,
    WHOLE_WORDS,
    Family,
    Problem,
    respond,
    split_problems,
    worked_example,
)
from examples.tiny.problems.sets import write_problems
from examples.tiny.tokenizer import build_tokenizer
from examples.tiny.warmstart import encode_prompts

VOCAB_SIZE = 384
MAX_POSITIONS = 256
TRAIN_PROBLEMS, HELDOUT_PROBLEMS = 800, 160
TOKENIZER_PROBLEMS = 2000
REPORT_NAME = "warmstart.json"


@dataclass(frozen=True)
class MaskedTask:
    """Which functions are asked for, and how they are taught."""

    name: str
    folder: str
    """Folder of the shipped result below examples/tiny/checkpoints."""
    families: tuple[Family, ...]
    places: int
    """Tokens of a canvas: the longest worked example and its end."""
    lessons: tuple[Lesson, ...]


DIFFUSION = MaskedTask(
    "tiny-diffusion", "diffusion", FAMILIES, 14, (Lesson(500, 4e-3, errs=False), Lesson(300, 2e-3, errs=True))
)
DIFFUSION_HARD = MaskedTask(
    "tiny-diffusion-hard", "diffusion-hard", PAIRS, 18, (Lesson(700, 4e-3, errs=False), Lesson(300, 2e-3, errs=True))
)
"""Pairs of operations, which the warm start gets wrong more often than not."""


@dataclass(frozen=True)
class DiffusionMeasurement:
    """Held-out responses at temperature 1; right means identical to the reference program."""

    prompts: int
    samples_per_prompt: int
    accuracy: float
    accuracy_by_level: dict[int, float]
    greedy_accuracy: float


@dataclass(frozen=True)
class Report:
    """What was trained, how, and the results."""

    name: str
    seed: int
    parameters: int
    vocab_size: int
    places: int
    lessons: tuple[Lesson, ...]
    losses: list[float]
    heldout: DiffusionMeasurement


def build_model(tokenizer: Qwen2Tokenizer, generator: torch.Generator) -> MaskedModel:
    """A freshly initialised model of about 240k parameters, float32, tied embeddings."""
    config = MaskedModelConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=4,
        intermediate_size=192,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=MAX_POSITIONS,
        # Slower rotations are useless within 60 tokens: with the usual 10,000 the loss was six times higher.
        rope_parameters={"rope_type": "default", "rope_theta": 100.0},
        initializer_range=INITIALIZER_RANGE,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        mask_token_id=tokenizer.mask_token_id,
        dtype="float32",
    )
    model = initialised(MaskedModel, config, generator)
    copy_what_is_attended_to(model, generator)
    return model


class Classroom:
    """Tokenised prompts and canvases of the problems, and training on them."""

    def __init__(
        self, tokenizer: Qwen2Tokenizer, model: MaskedModel, problems: Sequence[Problem], seed: int, places: int
    ) -> None:
        self.tokenizer = tokenizer
        self.model = model
        self.places = places
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        texts = [problem.prompt for problem in problems]
        self.prompts = dict(zip(problems, encode_prompts(tokenizer, texts), strict=True))
        self._canvases: dict[str, list[int]] = {}

    def loss(self, problems: Sequence[Problem], lesson: Lesson) -> Tensor:
        """Cross-entropy of masked places, mask ratio U(0, 1) a row, the prompt in sight, of a batch of examples."""
        chosen = self.rng.choices(problems, k=lesson.batch_size)
        texts = [worked_example(problem, self.rng) if lesson.errs else respond(problem.solution) for problem in chosen]
        canvas = torch.tensor([self._canvas(text) for text in texts])
        return self._loss([self.prompts[problem] for problem in chosen], canvas)

    def _loss(self, prompts: Sequence[list[int]], canvas: Tensor) -> Tensor:
        rows = len(canvas)
        # Evenly spread ratios, so that every batch has easy and hard rows.
        ratio = (torch.rand((), generator=self.generator) + torch.arange(rows) / rows) % 1
        hidden = torch.rand(canvas.shape, generator=self.generator) < ratio[:, None]
        ids, seen = left_padded(prompts, self.tokenizer.pad_token_id)
        ids = torch.cat([ids, canvas.masked_fill(hidden, self.tokenizer.mask_token_id)], 1)
        seen = torch.cat([seen, torch.ones_like(canvas)], 1)
        logits = completion_logits(self.model, ids, self.places, seen)
        return functional.cross_entropy(logits[hidden], canvas[hidden])

    def _canvas(self, text: str) -> list[int]:
        if text not in self._canvases:
            ids = self.tokenizer(text)["input_ids"]
            if len(ids) >= self.places:
                raise ValueError(f"{text!r} has {len(ids)} tokens: with its end it does not fit {self.places} places")
            self._canvases[text] = ids + [self.tokenizer.eos_token_id] * (self.places - len(ids))
        return self._canvases[text]

    @torch.no_grad()
    def measure(self, problems: Sequence[Problem], samples: int = 4, seed: int = 0) -> DiffusionMeasurement:
        """Sample every problem `samples` times and once greedily, one place a step."""
        repeated = [problem for problem in problems for _ in range(samples)]
        generator = torch.Generator().manual_seed(seed)
        right = self._right(repeated, DenoisingSettings(2 * self.places, 1.0, 1.0), generator)
        greedy = self._right(problems, DenoisingSettings(2 * self.places, 0.0, 1.0), generator)
        levels = Counter(problem.level for problem in repeated)
        hits = Counter(problem.level for problem, good in zip(repeated, right, strict=True) if good)
        return DiffusionMeasurement(
            prompts=len(problems),
            samples_per_prompt=samples,
            accuracy=sum(right) / len(right),
            accuracy_by_level={level: hits[level] / count for level, count in sorted(levels.items())},
            greedy_accuracy=sum(greedy) / len(greedy),
        )

    def _right(
        self, problems: Sequence[Problem], settings: DenoisingSettings, generator: torch.Generator
    ) -> list[bool]:
        prompts, seen = left_padded([self.prompts[problem] for problem in problems], self.tokenizer.pad_token_id)
        shape = (len(problems), self.places)

        def uniform(purpose: str, step: int) -> Tensor:
            return torch.rand(shape, generator=generator, dtype=torch.float64)

        mask_id = self.tokenizer.mask_token_id
        answered = denoise_completions(self.model, prompts, seen, self.places, settings, mask_id, uniform)
        texts = [self.tokenizer.decode(row).partition(self.tokenizer.eos_token)[0] for row in answered.tokens]
        return [text == respond(problem.solution) for problem, text in zip(problems, texts, strict=True)]


def warmstart(
    out_dir: Path | str,
    task: MaskedTask = DIFFUSION,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Build a task in `out_dir`: weights, tokenizer, train.jsonl, heldout.jsonl and warmstart.json.

    Runs on one thread and leaves the global random generators as they were.
    """
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    split = split_problems(random.Random(seed), TRAIN_PROBLEMS, HELDOUT_PROBLEMS, task.families)
    with one_thread():
        texts = [text for p in split.taught[:TOKENIZER_PROBLEMS] for text in (p.prompt, respond(p.solution))]
        tokenizer = build_tokenizer(texts, VOCAB_SIZE, max_length=MAX_POSITIONS, whole_words=WHOLE_WORDS)
        model = build_model(tokenizer, torch.Generator().manual_seed(seed))
        room = Classroom(tokenizer, model, split.taught + split.heldout, seed, task.places)
        losses = teach(model, task.lessons, partial(room.loss, split.taught), progress)
        heldout = room.measure(split.heldout)
    report = Report(task.name, seed, model.num_parameters(), len(tokenizer), task.places, task.lessons, losses, heldout)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    for name, problems in (("train", split.train), ("heldout", split.heldout)):
        write_problems(out / f"{name}.jsonl", name, problems)
    (out / REPORT_NAME).write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    return report
