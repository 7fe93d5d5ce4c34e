"""Rollout requests and scores of a shard, on a real run whose engine is never started."""

import asyncio
from pathlib import Path

import pandas as pd
import pytest

from ares.config.profiles import load
from ares.grading import RewardError
from ares.runs.run import Run
from ares.step.rows import GREEDY
from ares.store.store import Ref
from flows.draw import held_out_shards, shards_of
from tasks.sampling import Draw, Rows, check_graded, request_rows, score
from tests.ares import masked_builders
from tests.ares.builders import config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(config(), "here", tmp_path_factory.mktemp("runs"))


def draw(ids: list[str], first_slot: int = 0, purpose: str = "rollout", greedy: bool = False) -> Draw:
    return Draw(
        version=0, purpose=purpose, shard=0, first_slot=first_slot, ids=ids, n=3, temperature=1.0, greedy=greedy
    )


def test_a_draw_asks_for_n_samples_of_each_problem_in_slots_of_their_own(run: Run) -> None:
    names = run.train_set.frame["id"].tolist()[:2]
    asked = request_rows(run.step(1), draw([names[1], names[0], names[1]], first_slot=5))
    assert asked["id"].tolist() == [names[1]] * 3 + [names[0]] * 3 + [names[1]] * 3
    assert asked["slot"].tolist() == [5] * 3 + [6] * 3 + [7] * 3
    assert asked["sample"].tolist() == [0, 1, 2] * 3
    prompts = dict(zip(run.train_set.frame["id"], run.train_set.frame["prompt_token_ids"], strict=True))
    assert asked["prompt_token_ids"].tolist() == [prompts[name] for name in asked["id"]]
    assert asked["seed"].is_unique
    greedy = request_rows(run.step(1), draw(names, greedy=True))
    assert greedy["sample"].tolist() == [GREEDY, 0, 1, 2] * 2


def test_seeds_follow_the_run_the_step_and_the_purpose_but_not_the_shards(run: Run, tmp_path: Path) -> None:
    assert run.validation_set is not None
    names, held_out = run.train_set.frame["id"].tolist()[:4], run.validation_set.frame["id"].tolist()[:2]
    whole = request_rows(run.step(1), draw(names))
    parts = [request_rows(run.step(1), draw(names[:1])), request_rows(run.step(1), draw(names[1:], first_slot=1))]
    pd.testing.assert_frame_equal(whole, pd.concat(parts, ignore_index=True))
    one, other = (request_rows(run.step(number), draw(held_out, purpose="validation")) for number in (1, 2))
    pd.testing.assert_frame_equal(one, other)  # two evaluations differ by the policy alone
    reseeded = Run.open(config("train.seed=1"), "other", tmp_path)
    drawn = [
        (run.step(1), "rollout"),
        (run.step(2), "rollout"),
        (run.step(1), "bootstrap"),
        (reseeded.step(1), "rollout"),
    ]
    seeds = [set(request_rows(step, draw(names, purpose=purpose))["seed"]) for step, purpose in drawn]
    assert len(set.union(*seeds)) == sum(map(len, seeds))


def test_on_held_out_programs_the_verdict_is_their_own_and_told_once(tmp_path: Path) -> None:
    told = ["rollout.second_turn.children=2", "rollout.second_turn.shuffled=true", "validation.turns=2"]
    run, _ = Run.check(load("tiny-code-feedback", ["data.limit=20", *told]), "r", tmp_path)
    assert run.validation_set is not None
    asked = {}
    for purpose, problems in (("second-turn", run.train_set), ("validation", run.validation_set)):
        frame, ids = problems.frame.iloc[:2], [5, run.tokenizer.eos_token_id]
        rows = pd.DataFrame(
            {"id": frame["id"], "slot": range(2), "sample": 0, "response": "…", "token_ids": [ids, ids],
             "finish_reason": "stop"}
        )  # fmt: skip
        scores = rows[["id", "slot", "sample"]].assign(
            pass_ratio=0.0, test_outcomes=[["wrong_answer"] * len(tests) for tests in frame["test_cases"]]
        )
        refs = [run.store.write_rows(f"{purpose}-{name}.parquet", table) for name, table in
                (("rollout", rows), ("score", scores))]  # fmt: skip
        continued = draw([], purpose=purpose).model_copy(update={"continues": tuple(refs)})
        prompts = request_rows(run.step(1), continued).groupby("id")["prompt"].agg(list)
        asked[purpose] = [
            [tests[0] in prompt for prompt in prompts[name]]
            for name, tests in zip(frame["id"], frame["test_cases"], strict=True)
        ]
    assert asked == {"second-turn": [[False] * 2] * 2, "validation": [[True]] * 2}


def test_held_out_problems_are_asked_once_more_in_few_passes_in_slots_of_their_own(tmp_path: Path) -> None:
    settings = ["validation.few_steps=2", "validation.n=2", "rollout.shard_prompts=4"]
    run, _ = Run.check(masked_builders.config(*settings), "r", tmp_path)
    assert run.validation_set is not None
    names = run.validation_set.frame["id"].tolist()[:6]
    draws = held_out_shards(run.step(0), names)
    assert [each.shard for each in draws] == [0, 1, 2, 3]
    assert [each.denoising_steps for each in draws] == [None, None, 2, 2]
    assert [each.ids for each in draws] == [names[:4], names[4:]] * 2
    asked = pd.concat([request_rows(run.step(0), each) for each in draws])
    assert len(asked) == 2 * 2 * 6
    assert not asked.duplicated(["slot", "sample"]).any()
    assert [each.denoising_steps for each in shards_of(run.step(1), "rollout", names, 0, 2)] == [None, None]


def sampled(run: Run, problems: pd.DataFrame, responses: list[str]) -> Rows:
    table = pd.DataFrame(
        {"id": problems["id"], "slot": range(len(problems)), "sample": 0, "response": responses, "token_ids": [[1]] * 2}
    )
    return Rows(rows=run.store.write_rows("rollout.parquet", table.reset_index(drop=True)))


def test_scores_are_those_of_the_responses_and_lie_in_the_run_directory(run: Run) -> None:
    problems = run.train_set.frame.head(2)
    responses = [f"<think></think>\\boxed{{{problems['answer'][0]}}}", "no idea"]
    asked = draw(problems["id"].tolist())
    scored = asyncio.run(score.function(run.step(1), asked, sampled(run, problems, responses)))
    assert scored.rows.path == "steps/000001/score-rollout-0000.parquet"
    table = run.store.read_rows(scored.rows)
    assert table["accuracy"].tolist() == [1.0, 0.0]
    assert table["format"].tolist() == [1.0, 0.0]
    assert table.columns.tolist() == ["id", "slot", "sample", "accuracy", "format"]


def test_a_shard_that_nobody_can_grade_stays_but_a_grader_is_asked_again(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def f(completions, **k): return [None if c == 'no' else 1.0 for c in completions]"
    )
    run = Run.open(config(f"reward.kind={tmp_path / 'own.py'}:f", "reward.max_unscored=0.3"), "here", tmp_path / "runs")
    frame = run.train_set.frame

    def scores(shard: int, *responses: str) -> Ref:
        asked = draw(frame["id"][2 * shard : 2 * shard + 2].tolist()).model_copy(update={"shard": shard})
        rows = sampled(run, frame[2 * shard : 2 * shard + 2], list(responses))
        return asyncio.run(score.function(run.step(1), asked, rows)).rows

    bad, good, half = scores(0, "no", "no"), scores(1, "a", "b"), scores(2, "a", "no")
    check_graded(run.step(1), [good, half, scores(3, "a", "b")])
    with pytest.raises(RewardError, match=r"step 1: 3 of 6 responses, of 3 problems, have no score"):
        check_graded(run.step(1), [bad, good, half])
    assert [run.store.here(ref.path).exists() for ref in (bad, good, half)] == [False, True, False]
    run.close()


def test_the_seconds_of_programs_are_beside_their_scores_and_not_among_what_is_hashed(tmp_path: Path) -> None:
    run, _ = Run.check(load("tiny-code", ["data.limit=20", "reward.code.workers=1"]), "r", tmp_path)
    run.grader.start()
    problems = run.train_set.frame.head(2)
    rows = sampled(run, problems, ["```python\nx = 1\n```"] * 2)
    scored = asyncio.run(score.function(run.step(1), draw(problems["id"].tolist()), rows))
    run.close()
    assert len(scored.cpu_seconds) == 2
    assert "exec_time" not in run.store.read_rows(scored.rows)


def test_columns_of_the_data_may_have_the_names_of_ours(tmp_path: Path) -> None:
    """A reference response, or a column called sample or slot, must not stand in for the policy's."""
    data = tmp_path / "data.jsonl"
    pd.DataFrame(
        {"id": ["a", "b"], "prompt": "1+1=?", "answer": "2", "response": "\\boxed{2}", "sample": 7, "slot": 8}
    ).to_json(data, orient="records", lines=True)
    run = Run.open(config(f"data.train={data}"), "here", tmp_path / "runs")
    rows = sampled(run, run.train_set.frame, ["\\boxed{3}", "\\boxed{2}"])
    scored = asyncio.run(score.function(run.step(1), draw(["a", "b"]), rows))
    table = run.store.read_rows(scored.rows)
    assert table["accuracy"].tolist() == [0.0, 1.0]
    assert table["sample"].tolist() == [0, 0]
    assert table["slot"].tolist() == [0, 1]
