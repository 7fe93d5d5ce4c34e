"""The generated coding task: its table against the sandbox, its split, its examples, and the shipped warm starts."""

import ast
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.tiny import CHECKPOINTS
from examples.tiny.model import MAX_POSITIONS
from examples.tiny.problems.families import FAMILIES, SECRET, Family
from examples.tiny.problems.programs import (
    CONSTANTS,
    GUESSED,
    HARD,
    KINDS,
    LEVELS,
    NAMES,
    TESTS,
    USUAL,
    Problem,
    all_problems,
    erring_program,
    extract_program,
    respond,
    split_problems,
    worked_example,
)
from examples.tiny.problems.sets import Split, write_problems
from examples.tiny.program_measurement import judge, measure_programs
from examples.tiny.second_turns import with_second_turns
from examples.tiny.tasks import CODE, CODE_HARD, CODE_SECRET, TinyTask
from examples.tiny.tokenizer import build_tokenizer
from examples.tiny.warmstart import encode_prompts
from rewards.code import code_format_score
from sandbox import Program, SandboxPool

SHIPPED, SHIPPED_HARD, SHIPPED_SECRET = (CHECKPOINTS / name for name in ("code", "code-hard", "code-secret"))


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(num_workers=2, min_isolation="none") as pool:
        yield pool


@pytest.fixture(scope="module")
def split() -> Split[Problem]:
    return split_problems(random.Random(3), examples=4000, train=660, heldout=176)


def rows(name: str) -> list[dict]:
    return [json.loads(line) for line in (SHIPPED / name).read_text(encoding="utf-8").splitlines()]


def calls(problem: Problem, count: int) -> list[tuple]:
    rng = random.Random(f"{problem.family.name} {problem.constant}")
    return [problem.family.inputs(rng, problem.constant) for _ in range(count)]


def asserts(problem: Problem, function_of: str) -> list[str]:
    """Fresh inputs with the values that a callable of the table gives; they are not the problem's own tests."""
    function = getattr(problem.family, function_of)
    return [
        f"assert {problem.name}({', '.join(map(repr, given))}) == {function(problem.constant, *given)!r}"
        for given in calls(problem, 12)
    ]


# ---- the table ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["solution", "slip"])
def test_texts_and_callables_of_every_family_agree(pool: SandboxPool, text: str) -> None:
    """The text in the sandbox and the callable beside it are the same function, on inputs of their own."""
    problems = [Problem(family, constant, NAMES[0]) for family in FAMILIES + SECRET for constant in (2, 5, 9)]
    function = {"solution": "function", "slip": "slipped"}[text]
    verdicts = pool.run(Program(source=getattr(each, text), tests=asserts(each, function)) for each in problems)
    wrong = [each.prompt for each, verdict in zip(problems, verdicts, strict=True) if verdict.error_type != "accepted"]
    assert wrong == []


@pytest.mark.parametrize("family", FAMILIES + SECRET, ids=lambda family: family.name)
def test_a_slip_is_one_place_and_every_level_has_families(family: Family) -> None:
    assert sum(line.count(family.slip[0]) for line in family.lines) == 1
    assert family.slipped_lines != family.lines
    assert ("{k}" in family.description) == (family.tells is None)
    assert "{k}" in "".join(family.lines)
    assert family.level in LEVELS


def test_families_differ() -> None:
    assert len({family.name for family in FAMILIES}) == len({family.description for family in FAMILIES}) == 22
    assert Counter(family.level for family in FAMILIES) == {1: 6, 2: 6, 3: 5, 4: 5}


# ---- problems and examples ----------------------------------------------------------------------------------------


def test_every_problem_has_six_tests_of_which_no_constant_answer_passes_all() -> None:
    for problem in all_problems():
        assert len(set(problem.test_cases)) == TESTS, problem.prompt
        assert len({test.partition(" == ")[2] for test in problem.test_cases}) > 1, problem.prompt
        assert all(test.startswith(f"assert {problem.name}(") for test in problem.test_cases)
        assert problem.test_cases == Problem(problem.family, problem.constant, problem.name).test_cases


@pytest.mark.parametrize(
    ("kind", "error_type"),
    [
        ("right", "accepted"),
        ("slip", "wrong_answer"),
        ("misread", "wrong_answer"),
        ("runtime", "runtime_error"),
        ("syntax", "syntax_error"),
    ],
)
def test_examples_err_as_their_kind_says(pool: SandboxPool, kind: str, error_type: str) -> None:
    rng = random.Random(7)
    problems = [Problem(family, rng.choice(CONSTANTS), rng.choice(NAMES)) for family in FAMILIES for _ in range(2)]
    verdicts = judge(problems, [respond(erring_program(each, kind, rng)) for each in problems], pool)
    assert {verdict.error_type for verdict in verdicts} == {error_type}
    if kind == "slip":
        assert all(0 < verdict.pass_ratio < 1 for verdict in verdicts if verdict.pass_ratio is not None)


def test_kinds_come_at_the_nominal_rates() -> None:
    rng = random.Random(1)
    for shares in (USUAL, HARD, GUESSED):
        for level in LEVELS:
            assert sum(shares[level].values()) == pytest.approx(1)
            assert set(shares[level]) == set(KINDS)
            of_level = [family for family in FAMILIES if family.level == level]
            problems = [Problem(rng.choice(of_level), rng.choice(CONSTANTS), "f") for _ in range(3000)]
            responses = [(problem, extract_program(worked_example(problem, rng, shares))) for problem in problems]
            right = sum(program == problem.solution for problem, program in responses) / 3000
            slips = sum(program == problem.slip for problem, program in responses) / 3000
            assert right == pytest.approx(shares[level]["right"], abs=0.03)
            assert slips == pytest.approx(shares[level]["slip"], abs=0.03)


def test_unknown_kind() -> None:
    with pytest.raises(KeyError):
        erring_program(Problem(FAMILIES[0], 2, "f"), "lazy", random.Random(0))


def test_a_response_has_the_format_that_is_rewarded() -> None:
    problem = Problem(FAMILIES[0], 3, "calc")
    assert problem.prompt == "Write calc(x) that returns the distance of x from 3."
    assert problem.solution == "def calc(x):\n    return abs(x - 3)\n"
    response = respond(problem.solution)
    assert response == "```python\ndef calc(x):\n    return abs(x - 3)\n```\n"
    assert code_format_score(response) == 1.0
    assert extract_program(response) == problem.solution
    for other in (problem.solution, response.rstrip("\n"), response + "so", response * 2, ""):
        assert extract_program(other) is None


# ---- secret constants ---------------------------------------------------------------------------------------------


def test_a_secret_constant_shows_in_the_last_test_alone_and_a_slip_does_not_get_there() -> None:
    for problem in all_problems(SECRET):
        family, values = problem.family, []
        for test in problem.test_cases:
            given = ast.literal_eval(test.removeprefix(f"assert {problem.name}").partition(" == ")[0])
            arguments = given if isinstance(given, tuple) else (given,)
            values.append([family.function(constant, *arguments) for constant in range(1, 11)])
            if len(values) == 1:
                assert family.slipped(problem.constant, *arguments) not in values[0], problem.prompt
        assert all(value == told[0] for told in values[:-1] for value in told), problem.prompt
        assert [str(value).strip("[]") for value in values[-1]] == [str(constant) for constant in range(1, 11)]


@pytest.mark.parametrize(("kind", "first_failing"), [("right", TESTS - 1), ("slip", 0), ("runtime", 0), ("syntax", 0)])
def test_a_guess_in_the_right_place_fails_at_the_test_that_states_the_constant(
    pool: SandboxPool, kind: str, first_failing: int
) -> None:
    rng = random.Random(2)
    problems = [Problem(family, 4, "run") for family in SECRET]
    guesses = [Problem(family, 7, "run") for family in SECRET]
    verdicts = judge(problems, [respond(erring_program(guess, kind, rng)) for guess in guesses], pool)
    for verdict in verdicts:
        outcomes = [test.verdict == "accepted" for test in verdict.tests]
        assert outcomes.index(False) == first_failing


def test_held_out_prompts_come_with_every_constant_so_that_one_guess_in_eight_is_right() -> None:
    split = CODE_SECRET.split(random.Random(0), 10, CODE_SECRET.train_problems, CODE_SECRET.heldout_problems)
    constants: dict[str, set[int]] = {}
    for problem in split.heldout:
        constants.setdefault(problem.prompt, set()).add(problem.constant)
    assert set(map(frozenset, constants.values())) == {frozenset(CONSTANTS)}
    assert len(split.heldout) == len(constants) * len(CONSTANTS)
    assert constants.keys().isdisjoint(problem.prompt for problem in split.train)
    assert {problem.family.name for problem in split.heldout} == {family.name for family in SECRET}


def test_a_failed_worked_example_tells_nothing_of_the_secret_constant() -> None:
    rng = random.Random(5)
    chosen = [(problem, respond(problem.solution)) for problem in rng.choices(all_problems(SECRET[:1]), k=300)]
    worked = with_second_turns(chosen, 1.0, rng)
    second = [(turns, problem) for (turns, _), (problem, _) in zip(worked, chosen, strict=True) if len(turns) == 3]
    knew = [str(problem.constant) in turns[1]["content"] for turns, problem in second]  # their only digit
    told = ["5 of 6 tests" in turns[2]["content"] for turns, _ in second]
    assert len(second) > 100
    assert sum(knew) / len(knew) < 0.25
    assert 0.7 < sum(told) / len(told) < 0.95


# ---- the split ----------------------------------------------------------------------------------------------------


def test_heldout_problems_occur_nowhere_in_training(split: Split[Problem]) -> None:
    measured = {problem.prompt for problem in split.heldout}
    assert len(measured) == len(split.heldout)
    assert len({problem.prompt for problem in split.train}) == len(split.train)
    assert measured.isdisjoint(problem.prompt for problem in split.train)
    assert measured.isdisjoint(problem.prompt for problem, _ in split.examples)


def test_sets_are_family_balanced_and_do_not_depend_on_the_examples(split: Split[Problem]) -> None:
    names = [family.name for family in FAMILIES]
    assert Counter(problem.family.name for problem in split.heldout) == dict.fromkeys(names, 8)
    assert Counter(problem.family.name for problem in split.train) == dict.fromkeys(names, 30)
    hard = split_problems(random.Random(3), examples=100, train=660, heldout=176, shares=HARD)
    assert (hard.train, hard.heldout) == (split.train, split.heldout)
    other = split_problems(random.Random(4), examples=100, train=660, heldout=176)
    assert other.heldout != split.heldout


def test_more_problems_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="there are only 2112 problems"):
        split_problems(random.Random(0), examples=1, train=2000, heldout=113)


# ---- what is shipped ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "folder"),
    [(CODE, SHIPPED), (CODE_HARD, SHIPPED_HARD), (CODE_SECRET, SHIPPED_SECRET)],
    ids=lambda it: it.name,
)
def test_the_shipped_data_and_tokenizers_are_what_the_seed_generates(
    task: TinyTask, folder: Path, tmp_path: Path
) -> None:
    split = task.split(random.Random(0), 1, task.train_problems, task.heldout_problems)
    write_problems(tmp_path / "train.jsonl", "train", split.train)
    write_problems(tmp_path / "heldout.jsonl", "heldout", split.heldout)
    build_tokenizer(
        task.tokenizer_texts(split), task.vocab_size, max_length=MAX_POSITIONS, whole_words=task.whole_words
    ).save_pretrained(tmp_path)
    problems = folder if task.writes_problems else SHIPPED  # tiny-code-hard reads those of tiny-code
    for name in ("train.jsonl", "heldout.jsonl"):
        assert (tmp_path / name).read_bytes() == (problems / name).read_bytes(), name
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name
    assert len(list(folder.glob("*.jsonl"))) == 2 * task.writes_problems


def test_the_shipped_rows() -> None:
    train, heldout = rows("train.jsonl"), rows("heldout.jsonl")
    assert all(set(row) == {"id", "prompt", "test_cases", "solution", "level", "family"} for row in train + heldout)
    assert len({row["id"] for row in train + heldout}) == 660 + 176
    assert {row["prompt"] for row in train}.isdisjoint(row["prompt"] for row in heldout)
    for folder in (SHIPPED, SHIPPED_HARD):
        assert sum(path.stat().st_size for path in folder.iterdir()) < 1_000_000


def test_the_reference_solutions_of_the_shipped_rows_pass(pool: SandboxPool) -> None:
    chosen = random.Random(0).sample(rows("train.jsonl") + rows("heldout.jsonl"), 110)
    verdicts = pool.run(Program(source=row["solution"], tests=row["test_cases"]) for row in chosen)
    assert {verdict.error_type for verdict in verdicts} == {"accepted"}


@pytest.mark.parametrize(
    ("folder", "accuracy", "sparse", "greedy"),
    [(SHIPPED, (0.28, 0.42), (0.8, 1.0), (0.3, 0.65)), (SHIPPED_HARD, (0.04, 0.11), (0.25, 0.55), (0.0, 0.15))],
    ids=["tiny-code", "tiny-code-hard"],
)
def test_the_shipped_reports_are_in_the_range_that_reinforcement_needs(
    folder: Path, accuracy: tuple[float, float], sparse: tuple[float, float], greedy: tuple[float, float]
) -> None:
    report = json.loads((folder / "warmstart.json").read_text(encoding="utf-8"))
    heldout = report["heldout"]
    assert (report["seed"], report["fit"]["steps"], heldout["sampled"]["samples_per_prompt"]) == (0, 500, 8)
    assert accuracy[0] <= heldout["sampled"]["accuracy"] <= accuracy[1]
    assert sparse[0] <= heldout["groups_with_spread"]["sparse"] <= sparse[1]
    assert heldout["groups_with_spread"]["dense"] > 0.95
    assert greedy[0] <= heldout["greedy_accuracy"] <= greedy[1]  # sharpening alone would not solve the task
    assert sum(heldout["outcome_shares"].values()) == pytest.approx(1)
    assert set(heldout["accuracy_by_family"]) == {family.name for family in FAMILIES}


def test_the_shipped_models_do_as_their_reports_say() -> None:
    by_prompt = {problem.prompt: problem for problem in all_problems()}
    problems = [by_prompt[row["prompt"]] for row in rows("heldout.jsonl")][:88]
    for folder, low, high in ((SHIPPED, 0.25, 0.45), (SHIPPED_HARD, 0.02, 0.14)):
        model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
        assert model.config.hidden_size // model.config.num_attention_heads == 32
        assert model.config.vocab_size == len(tokenizer)
        prompts = encode_prompts(tokenizer, [problem.prompt for problem in problems])
        assert max(map(len, prompts)) <= 48
        measurement = measure_programs(
            model, tokenizer, prompts, problems, samples_per_prompt=2, max_new_tokens=CODE_HARD.max_new_tokens, seed=5
        )
        assert low <= measurement.accuracy <= high
        assert measurement.sampled.finished > 0.98
        assert measurement.sampled.mean_length < 35


def test_the_shipped_tokenizer_keeps_fences_whole_and_decodes_to_the_text() -> None:
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    response = respond(Problem(FAMILIES[-1], 7, "solve").solution)
    tokens = tokenizer.tokenize(response)
    assert {"```python", "```"} <= set(tokens)
    assert tokenizer.decode(tokenizer(response)["input_ids"]) == response
    lengths = [len(tokenizer.tokenize(respond(problem.solution))) for problem in all_problems()]
    assert max(lengths) < 64
    assert 20 <= sum(lengths) / len(lengths) <= 30


def test_no_two_problems_share_a_prompt() -> None:
    prompts = [problem.prompt for problem in all_problems()]
    assert len(set(prompts)) == len(prompts) == len(FAMILIES) * len(CONSTANTS) * len(NAMES)
    assert all(re.fullmatch(r"Write \w+\([a-z, ]+\) that .+\.", prompt) for prompt in prompts)
