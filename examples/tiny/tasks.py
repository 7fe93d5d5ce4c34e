"""The twelve toys: which problems each has, which model, and how that is warm-started on worked examples.

`build` writes what transformers and `ares train` read: weights, tokenizer and, unless they are another task's, the
problems to train and to measure on. How good the model is then says `ares eval FOLDER --profile NAME`.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import Qwen2Tokenizer

from examples.tiny import chains, guesses, learning, models, one_liners, pictures, products, programs, skills
from examples.tiny.families import FAMILIES, SECRET, Family
from examples.tiny.learning import Lesson, Progress
from examples.tiny.problems import FENCES, THOUGHT, Split, write_problems
from examples.tiny.programs import Conversation


def first_turns(examples: Sequence[tuple[Any, str]], _: random.Random) -> list[tuple[Conversation, str]]:
    """Examples of one turn."""
    return [(learning.ask(problem.prompt), response) for problem, response in examples]


def turns_of_episodes(examples: Sequence[tuple[Any, str]], _: random.Random) -> list[tuple[Conversation, str]]:
    """Examples that hold what was said before."""
    return [(problem.conversation, response) for problem, response in examples]


@dataclass(frozen=True)
class CausalTask:
    """A causal model that imitates a fixed set of worked examples, each used once."""

    folder: str
    split: Callable[[random.Random, int], Split[Any]]
    """(rng, number of examples) → problems."""
    texts: Callable[[Split[Any]], list[str]]
    """What the tokenizer is trained on."""
    whole_words: tuple[str, ...]
    vocab_size: int
    steps: int
    batch_size: int = 64
    conversations: Callable[[Sequence[tuple[Any, str]], random.Random], list[tuple[Conversation, str]]] = first_turns
    """(examples, rng) → what was said before each response, and the response."""
    template: str = models.CHAT_TEMPLATE
    copies: bool = False
    """Whether attention starts out copying what it looks at."""
    writes_problems: bool = True
    """False if the task uses another one's problem files."""
    writes_levels: bool = False
    """Whether to write a held-out file per level, too: heldout-1.jsonl and so on."""

    def build(self, out: Path, seed: int, progress: Progress) -> None:
        rng = random.Random(seed)
        split = self.split(rng, self.steps * self.batch_size)
        tokenizer = models.build_tokenizer(
            self.texts(split), self.vocab_size, whole_words=self.whole_words, template=self.template
        )
        generator = torch.Generator().manual_seed(seed)
        model = models.build_causal(tokenizer, generator)
        if self.copies:
            models.start_copying(model, generator)
        worked = self.conversations(split.examples, rng)
        loss = learning.imitate_turns(model, tokenizer, worked, self.batch_size, rng)
        learning.learn(model, self.steps, learning.cosine(self.steps), loss, progress)
        save(out, model, tokenizer)
        if self.writes_problems:
            write_sets(out, split)
        for level in sorted({problem.level for problem in split.heldout}) if self.writes_levels else []:
            of_level = [problem for problem in split.heldout if problem.level == level]
            write_problems(out / f"heldout-{level}.jsonl", "heldout", of_level)


@dataclass(frozen=True)
class MaskedTask:
    """A masked-diffusion model.

    Right examples come first, until it copies names and constants from the prompt, then examples with many errors. With
    the second kind alone it learns the errors' form long before it learns to copy.
    """

    folder: str
    families: tuple[one_liners.Family, ...]
    places: int
    """Tokens of a canvas: the longest worked example and its end."""
    lessons: tuple[Lesson, ...]

    @property
    def steps(self) -> int:
        return sum(lesson.steps for lesson in self.lessons)

    def build(self, out: Path, seed: int, progress: Progress) -> None:
        split = one_liners.split_one_liners(random.Random(seed), families=self.families)
        tokenizer = self.tokenizer(split)
        model = models.build_masked(tokenizer, torch.Generator().manual_seed(seed))
        taught = [problem for problem, _ in split.examples]
        loss = learning.imitate_canvases(model, tokenizer, taught, self.places, seed)
        learning.teach(model, self.lessons, loss, progress)
        save(out, model, tokenizer)
        write_sets(out, split)

    @staticmethod
    def tokenizer(split: Split[one_liners.Problem]) -> Qwen2Tokenizer:
        texts = [text for problem, response in split.examples[:2000] for text in (problem.prompt, response)]
        return models.build_tokenizer(texts, 384, max_length=256, whole_words=one_liners.WHOLE_WORDS)


@dataclass(frozen=True)
class VisionTask:
    """A vision-language model, taught like a masked one."""

    folder: str
    lessons: tuple[Lesson, ...]

    @property
    def steps(self) -> int:
        return sum(lesson.steps for lesson in self.lessons)

    def build(self, out: Path, seed: int, progress: Progress) -> None:
        rng = random.Random(seed)
        split = pictures.split_pictures(rng)
        examples = pictures.draw_examples(rng, 8000)
        tokenizer = models.build_tokenizer(
            (text for problem, told in examples for text in (problem.prompt.removeprefix(pictures.IMAGE), told)), 320,
            whole_words=THOUGHT, special=models.VISION_MARKS, template=models.VISION_TEMPLATE,
        )  # fmt: skip
        model = models.build_vision(tokenizer, torch.Generator().manual_seed(seed))
        save(out, model, tokenizer)  # the configuration is read from there
        models.build_image_processor().save_pretrained(out)
        with TemporaryDirectory() as drawn:
            loss = learning.imitate_pictures(model, tokenizer, out, Path(drawn), rng)
            learning.teach(model, self.lessons, loss, progress)
        save(out, model, tokenizer)
        for name, problems in (("train", split.train), ("heldout", split.heldout)):
            pictures.write_pictures(out / f"{name}.parquet", name, problems)


def build(task: CausalTask | MaskedTask | VisionTask, out: Path, seed: int, progress: Progress) -> None:
    """Write a task's folder. On one thread; the global random generators stay as they were.

    Raises SandboxUnavailable if programs of second turns cannot be judged.
    """
    with learning.one_thread():
        task.build(out, seed, progress)


def save(out: Path, model: Any, tokenizer: Qwen2Tokenizer) -> None:
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


def write_sets(out: Path, split: Split[Any]) -> None:
    write_problems(out / "train.jsonl", "train", split.train)
    write_problems(out / "heldout.jsonl", "heldout", split.heldout)


def texts_of_examples(split: Split[Any]) -> list[str]:
    """Prompts and responses of the first examples."""
    return [text for problem, response in split.examples[:4000] for text in (problem.prompt, response)]


def texts_of_programs(families: Sequence[Family], verdicts: bool, _: Split[Any]) -> list[str]:
    """Prompts, solutions and slips of every problem: the same tokens whatever the quality of the examples."""
    texts = [
        text
        for problem in programs.all_problems(families)
        for text in (problem.prompt, programs.respond(problem.solution), programs.respond(problem.slip))
    ]
    return [*texts, *programs.VERDICTS * 400] if verdicts else texts


CODE = CausalTask(
    "code", programs.split_programs, partial(texts_of_programs, FAMILIES, False), FENCES, vocab_size=512, steps=500
)
FEEDBACK = replace(
    CODE, folder="code-feedback", texts=partial(texts_of_programs, FAMILIES, True), vocab_size=544, steps=700,
    conversations=partial(programs.with_second_turns, right=0.7), writes_problems=False,
)  # fmt: skip
TASKS: dict[str, CausalTask | MaskedTask | VisionTask] = {
    "tiny-math": CausalTask("math", chains.split_graded, texts_of_examples, THOUGHT, vocab_size=320, steps=1000),
    "tiny-reason": CausalTask(
        "reason", chains.split_chains, texts_of_examples, THOUGHT, vocab_size=300, steps=1300, batch_size=32,
        writes_levels=True,
    ),
    "tiny-code": CODE,
    # The problems of tiny-code with few right worked examples: for comparing rewards.
    "tiny-code-hard": replace(
        CODE, folder="code-hard", split=partial(programs.split_programs, shares=programs.HARD), writes_problems=False
    ),
    # The problems of tiny-code for a model that has seen second turns, with the first verdict in the prompt.
    "tiny-code-feedback": FEEDBACK,
    # Functions whose constant a failing test alone states: what second turns are for. After 700 steps from random
    # matrices one constant in five was read off it, where one in eight is a guess.
    "tiny-code-secret": replace(
        FEEDBACK, folder="code-secret", texts=partial(texts_of_programs, SECRET, True), steps=400,
        conversations=partial(programs.with_second_turns, right=0.15), split=partial(
            programs.split_programs, train=640, heldout=128, shares=programs.GUESSED, families=SECRET
        ),
        copies=True, writes_problems=True,
    ),
    # Functions of four parts, one a test: what a reward for partial passes is for.
    "tiny-code-skills": replace(
        CODE, folder="code-skills", split=skills.split_skills, texts=texts_of_examples, whole_words=skills.WHOLE_WORDS
    ),
    # Products that only a calculator gives, and a game: what episodes are for.
    "tiny-tool": CausalTask(
        "tool", products.split_products, products.texts_of_calls, products.WHOLE_WORDS, vocab_size=320, steps=1000,
        conversations=turns_of_episodes, template=models.TOOL_TEMPLATE, copies=True,
    ),
    "tiny-game": CausalTask(
        "game", guesses.split_games, guesses.texts_of_games, guesses.WHOLE_WORDS, vocab_size=320, steps=800,
        conversations=turns_of_episodes,
    ),
    "tiny-diffusion": MaskedTask(
        "diffusion", one_liners.FAMILIES, 14, (Lesson(500, 4e-3, errs=False), Lesson(300, 2e-3, errs=True))
    ),
    # Pairs of operations, which the warm start gets wrong more often than not.
    "tiny-diffusion-hard": MaskedTask(
        "diffusion-hard", one_liners.PAIRS, 18, (Lesson(700, 4e-3, errs=False), Lesson(300, 2e-3, errs=True))
    ),
    "tiny-vision": VisionTask("vision", (Lesson(400, 4e-3, errs=False), Lesson(200, 2e-3, errs=True))),
}  # fmt: skip
