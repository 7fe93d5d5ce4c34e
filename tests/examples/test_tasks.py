"""Warm starts: repeatable, and the shipped ones are what the seed gives and what the runs need."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ares.config import load
from ares.data import load_problems, load_tokenizer
from ares.engines import DiffusionEngine, Request, SamplingSettings, TransformersEngine
from ares.grading import load_grader
from ares.models import load_model
from examples.tiny import CHECKPOINTS, learning, masked_model, models
from examples.tiny.__main__ import main
from examples.tiny.chains import split_chains, split_graded
from examples.tiny.guesses import split_games
from examples.tiny.learning import Lesson
from examples.tiny.models import build_tokenizer
from examples.tiny.one_liners import split_one_liners
from examples.tiny.problems import Split
from examples.tiny.products import split_products
from examples.tiny.programs import all_problems, respond, split_programs
from examples.tiny.skills import split_skills
from examples.tiny.tasks import TASKS, CausalTask, MaskedTask, build, texts_of_examples
from tests.fork_server import run_code


def shorten(name: str, steps: int = 1) -> Any:
    """A task that takes a step or so of each kind."""
    task = TASKS[name]
    if isinstance(task, CausalTask):
        return replace(task, steps=steps)
    return replace(task, lessons=tuple(replace(lesson, steps=steps) for lesson in task.lessons))


Built = Callable[[str], Path]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """A folder with a task's results after a step."""
    folders: dict[str, Path] = {}

    def build_once(name: str) -> Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp(name)
            build(shorten(name), folders[name], 0, lambda: None)
        return folders[name]

    return build_once


SMALL = ["tiny-math", "tiny-code-secret", "tiny-diffusion", "tiny-vision"]


BUILD_AGAIN = """
import random
from pathlib import Path
import torch
from tests.examples.test_tasks import SMALL, build, shorten
for name in SMALL:
    folder, task, taken = Path({folder!r}, name), shorten(name), []
    folder.mkdir()
    before = random.getstate(), torch.get_rng_state().tolist(), torch.get_num_threads()
    build(task, folder, 0, lambda: taken.append(1))
    assert (random.getstate(), torch.get_rng_state().tolist(), torch.get_num_threads()) == before
    assert len(taken) == task.steps
"""


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_and_leaves_pythons_and_torchs_generators(
    built: Built, tmp_path: Path
) -> None:
    """In a process of its own: in this one, threads of libraries may draw from Python's meanwhile."""
    ended = run_code(BUILD_AGAIN.format(folder=str(tmp_path)))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for name in SMALL:
        folders = built(name), tmp_path / name
        expected, found = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
        assert expected.keys() == found.keys()
        assert [file for file in expected if expected[file] != found[file]] == [], name


SPLITS: dict[str, Callable[[random.Random], Split[Any]]] = {
    "graded": partial(split_graded, examples=4000),
    "chains": partial(split_chains, examples=4000),
    "programs": partial(split_programs, examples=4000),
    "skills": partial(split_skills, examples=3000),
    "games": partial(split_games, examples=3000),
    "products": partial(split_products, examples=3000),
    "one_liners": split_one_liners,
}


@pytest.mark.parametrize("name", SPLITS)
def test_a_seed_gives_the_same_sets_and_what_is_measured_is_taught_nowhere(name: str) -> None:
    one, again, other = (SPLITS[name](random.Random(seed)) for seed in (3, 3, 4))
    assert one == again != other
    train, measured = ({problem.prompt for problem in part} for part in (one.train, one.heldout))
    assert (len(train), len(measured)) == (len(one.train), len(one.heldout))
    taught = {problem.prompt.removeprefix(getattr(problem, "begins", "")) for problem, _ in one.examples}
    assert measured.isdisjoint(train | taught)


@pytest.mark.parametrize(
    ("split", "told"),
    [
        (partial(split_graded, examples=4, train=4, heldout=400), "only about 54 different problems of this kind, 100"),
        (partial(split_programs, examples=1, train=2000, heldout=113), "there are only 2112 problems"),
        (partial(split_one_liners, train=4900, heldout=160), "there are only 4992 problems"),
    ],
)
def test_more_problems_than_there_are_is_an_error(split: Callable[[random.Random], Split[Any]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        split(random.Random(0))


def test_another_seed_is_another_model(built: Built, tmp_path: Path) -> None:
    build(shorten("tiny-math"), tmp_path, 1, lambda: None)
    for file in ("model.safetensors", "train.jsonl", "heldout.jsonl"):
        assert (built("tiny-math") / file).read_bytes() != (tmp_path / file).read_bytes(), file


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_what_is_shipped_is_what_the_seed_gives_but_for_the_weights(name: str, built: Built) -> None:
    """tiny-vision's rows are compared, since parquet's bytes depend on who wrote them."""
    shipped, folder = CHECKPOINTS / TASKS[name].folder, built(name)
    fixed = getattr(TASKS[name], "texts", None) is not texts_of_examples  # of the tokenizer, whatever the examples
    assert {path.name for path in shipped.iterdir()} - {"__pycache__"} == {
        *(path.name for path in folder.iterdir()),
        "warmstart.json",
    }
    for path in folder.iterdir():
        if path.suffix == ".parquet":
            pd.testing.assert_frame_equal(pd.read_parquet(path), pd.read_parquet(shipped / path.name))
        elif path.suffix == ".jsonl" or (fixed and path.suffix != ".safetensors"):
            assert path.read_bytes() == (shipped / path.name).read_bytes(), path.name
    assert sum(path.stat().st_size for path in shipped.iterdir() if path.is_file()) < 1_500_000


def test_the_code_of_the_masked_model_lies_beside_its_weights() -> None:
    for name in ("diffusion", "diffusion-hard"):
        assert (CHECKPOINTS / name / "masked_model.py").read_bytes() == Path(masked_model.__file__).read_bytes()


@pytest.mark.parametrize(
    ("name", "every", "least", "most"),
    [
        ("tiny-math", 1, 0.30, 0.50),
        ("tiny-code", 3, 0.25, 0.47),
        pytest.param("tiny-code-hard", 1, 0.01, 0.14, marks=pytest.mark.slow),
        ("tiny-diffusion", 3, 0.2, 0.5),
        pytest.param("tiny-diffusion-hard", 1, 0.05, 0.25, marks=pytest.mark.slow),
    ],
)
def test_shipped_models_are_right_as_often_as_reinforcement_needs(
    name: str, every: int, least: float, most: float
) -> None:
    """Of every so many problems."""
    config = load(name)
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    assert config.data.validation is not None
    problems = load_problems(str(config.data.validation), "", config.data, tokenizer, config.reward.needs)
    rows = problems.frame[::every].reset_index(drop=True)
    kind = DiffusionEngine if isinstance(TASKS[name], MaskedTask) else TransformersEngine
    engine = kind.create(config.rollout, config, tokenizer)
    model = load_model(config, torch.device("cpu"))
    engine.load_weights(0, {each: weight.detach() for each, weight in model.model.named_parameters()})
    requests = [Request(prompt, seed) for seed, prompt in enumerate(rows["prompt_token_ids"])]
    settings = SamplingSettings(1.0, 1.0, config.rollout.max_response_length)
    answers = engine.generate(requests, settings)
    rows = rows.assign(
        slot=range(len(rows)), sample=0, finish_reason=[answer.finish_reason for answer in answers],
        token_ids=[answer.token_ids for answer in answers],
        response=tokenizer.batch_decode([answer.token_ids.tolist() for answer in answers], skip_special_tokens=True),
    )  # fmt: skip
    grader = load_grader(config.reward)
    grader.start()
    try:
        accuracy = grader.grade(rows)["accuracy"].mean()
    finally:
        grader.close()
    assert least <= accuracy <= most


def test_the_shipped_model_is_one_that_every_engine_takes() -> None:
    model, tokenizer = (kind.from_pretrained(CHECKPOINTS / "math") for kind in (AutoModelForCausalLM, AutoTokenizer))
    config = model.config
    assert config.hidden_size // config.num_attention_heads == 32
    assert config.tie_word_embeddings
    assert model.dtype == torch.float32
    assert model.num_parameters() < 130_000
    assert config.vocab_size == len(tokenizer)
    assert config.eos_token_id == tokenizer.eos_token_id == model.generation_config.eos_token_id
    assert config.pad_token_id == tokenizer.pad_token_id == model.generation_config.pad_token_id


def test_tokenizers_keep_whole_words_and_decode_to_the_text() -> None:
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINTS / "math")
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
    of_code = AutoTokenizer.from_pretrained(CHECKPOINTS / "code")
    assert {"```python", "```"} <= set(of_code.tokenize(respond("def f(x):\n    return x\n")))
    assert max(len(of_code.tokenize(respond(problem.solution))) for problem in all_problems()) < 64
    plain = build_tokenizer(["one two three"] * 10, 270, max_length=64)
    assert len(plain) <= 270
    assert plain.decode(plain("two one")["input_ids"]) == "two one"


def test_a_response_that_does_not_fit_the_canvas_is_named() -> None:
    split = split_one_liners(random.Random(0), 1, 1)
    tokenizer = MaskedTask.tokenizer(split)
    model = models.build_masked(tokenizer, torch.Generator())
    loss = learning.imitate_canvases(model, tokenizer, split.train, 5, 0)
    with pytest.raises(ValueError, match="does not fit 5 places"):
        learning.teach(model, [Lesson(1, 1e-3, errs=False)], loss, lambda: None)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [(["magic"], "invalid choice: 'magic'"), (["tiny-math", "--out", "f/x"], "--out f/x: no folder can be made there")],
)
def test_wrong_arguments_are_one_line(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text("a file")
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert told in f"{ended.value} {capsys.readouterr().err}"


def test_the_command_builds_a_folder_and_says_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TASKS, "tiny-tool", shorten("tiny-tool"))
    main(["tiny-tool", "--out", str(tmp_path / "mine")])
    assert (tmp_path / "mine" / "model.safetensors").exists()
    assert f"next: ares eval {tmp_path / 'mine'} --profile tiny-tool" in capsys.readouterr().out
