"""Phases that sample and grade: rollout and score, one shard at a time.

Not covered: what an engine is asked (ares/step/requests.py), which shards (flows/draw.py).
"""

import asyncio
from functools import partial

import pandas as pd
from pydantic import BaseModel

from ares.engines import Request, SamplingSettings, response_texts
from ares.grading import ID_COLUMNS, Grader, RewardError, answered, check_scored, grade_rows
from ares.runs import Step
from ares.step import (
    PROMPT,
    asked_rows,
    begun_rows,
    continue_rows,
    engine_calls,
    requested_rows,
    second_turn_rows,
    with_scores,
)
from ares.store import Journal, Ref
from tasks.phase import phase

ANSWER = ["response", "token_ids", "log_probs", "finish_reason"]


class Draw(BaseModel):
    """What a shard samples: problems by id, in slots that are unique within the step."""

    version: int
    """Policy version that is sampled from."""
    purpose: str
    """`rollout`, `second-turn`, `bootstrap` or `validation`: part of every draw's key, and which data set it is."""
    shard: int
    first_slot: int
    ids: list[str]
    n: int
    temperature: float
    greedy: bool = False
    """One greedy answer more per problem (ReMax's baseline)."""
    continues: tuple[Ref, Ref] | None = None
    """Rollout and scores of the first turns that are continued."""
    denoising_steps: int | None = None
    """Denoising steps, if not rollout.diffusion.steps."""
    averaged: bool = False
    """From the average of the version's weights (learner.ema)."""

    @property
    def responses(self) -> int:
        """How many responses a shard of first turns asks for."""
        return len(self.ids) * (self.n + self.greedy)

    @property
    def label(self) -> str:
        """What a phase's title calls it."""
        of_average = "averaged " * self.averaged
        return f"{self.shard}" if self.purpose == "rollout" else f"{of_average}{self.purpose} {self.shard}"


class Rows(BaseModel):
    """A table of samples."""

    rows: Ref


class Scores(BaseModel):
    """A table of grades."""

    rows: Ref
    cpu_seconds: list[float] = []
    """Of each row's program. They differ between executions, so no hash covers them."""


class Part(BaseModel):
    """The result of sampling one part (rollout.parts): finished responses, and those of coming steps."""

    finished: Rows | None
    """None: no step's responses are finished yet."""
    under_way: Ref


@phase("rollout")
async def rollout(step: Step, draw: Draw) -> Rows:
    """Sample `draw.n` responses to each problem; rows are sorted by slot and sample."""
    asked, parts = request_rows(step, draw), []
    journal = _journal(step, draw)
    for part, requests, how in engine_calls(asked, draw.temperature, step.config.rollout, draw.denoising_steps):
        answers = await _answers(step, draw, part.reset_index(drop=True), requests, how, journal)
        parts.append(answers.set_axis(part.index))
    answers = pd.concat(parts) if parts else pd.DataFrame(columns=ANSWER)  # nothing failed, so nothing is continued
    kept = [*ID_COLUMNS, *(PROMPT if draw.continues else [])]  # a problem's own prompt is in the data set
    path = step.path(f"rollout-{draw.purpose}-{draw.shard:04d}.parquet")
    ref = step.run.store.write_rows(path, asked[kept].join(answers))
    if journal is not None:
        journal.end()
    return Rows(rows=ref)


@phase("rollout")
async def rollout_part(step: Step, draw: Draw, under_way: Ref | None) -> Part:
    """Sample the first part of `draw`'s responses and the next part of those under way, which finishes one step's.

    What is sampled together does not depend on timing, so neither do its bits.
    """
    store, settings, problems = step.run.store, step.config.rollout, step.run.problems(draw.purpose)
    rows = begun_rows(request_rows(step, draw)).assign(step=step.number)
    if under_way is not None:
        rows = pd.concat([store.read_rows(under_way), rows]).sort_values(["slot", "step", "sample"], ignore_index=True)
    asked = asked_rows(rows, problems.rows(rows["id"].tolist())).assign(begun=rows["token_ids"].map(len))
    for part, requests, how in engine_calls(asked[asked["finish_reason"] != "stop"], draw.temperature, settings):
        rows = continue_rows(rows, part.index, await step.run.workers.sample(draw.version, requests, how))
    ready = step.number + 1 - settings.parts
    is_ready = rows["step"] == ready
    left = store.write_rows(step.path(f"under-way-{draw.shard:04d}.parquet"), rows[~is_ready].reset_index(drop=True))
    if ready < 1:
        return Part(finished=None, under_way=left)
    finished = rows[is_ready].reset_index(drop=True)
    texts = response_texts(step.run.tokenizer, [ids.tolist() for ids in finished["token_ids"]])
    path = step.run.step(ready).path(f"rollout-{draw.purpose}-{draw.shard:04d}.parquet")
    ref = store.write_rows(path, finished.assign(response=texts)[[*ID_COLUMNS, *ANSWER]])
    return Part(finished=Rows(rows=ref), under_way=left)


def _journal(step: Step, draw: Draw) -> Journal | None:
    """Where a shard's responses are kept as they finish; None where a shard is resampled whole to get the same bits."""
    if not step.run.workers.answers_parts:
        return None
    path = step.path(f"rollout-{draw.purpose}-{draw.shard:04d}.journal")
    return Journal(step.run.store.directory / path, step.key("rollout", draw.model_dump_json()))


async def _answers(
    step: Step, draw: Draw, asked: pd.DataFrame, requests: list[Request], how: SamplingSettings, journal: Journal | None
) -> pd.DataFrame:
    """One row per request, indexed by its place; responses that a killed process kept are not sampled again."""
    finished, sample = partial(_anticipate, step, draw.purpose, asked), step.run.workers.sample
    if journal is None:
        return await sample(draw.version, requests, how, finished, draw.averaged)
    known = _known(journal, asked)
    if len(known):
        finished(known)
    missing = asked.index.difference(known.index)

    def keep(answers: pd.DataFrame) -> None:
        answers = answers.set_axis(missing[answers.index])
        journal.add(asked.loc[answers.index, ["slot", "sample"]].join(answers))
        finished(answers)

    if missing.empty:
        return known
    new = await sample(draw.version, [requests[place] for place in missing], how, keep, draw.averaged)
    return pd.concat([known, new.set_axis(missing)]).sort_index()


def _known(journal: Journal, asked: pd.DataFrame) -> pd.DataFrame:
    """The journalled responses to rows, indexed by place; those of an engine that died may be there twice."""
    rows = journal.rows()
    if rows is None:
        return pd.DataFrame()
    latest = rows.drop_duplicates(["slot", "sample"], keep="last").set_index(["slot", "sample"])
    places = pd.MultiIndex.from_frame(asked[["slot", "sample"]])
    is_known = places.isin(latest.index)
    return latest.loc[places[is_known]].set_axis(asked.index[is_known])


def _anticipate(step: Step, purpose: str, asked: pd.DataFrame, answers: pd.DataFrame) -> None:
    """Let the grader start on finished responses, and count them for the progress bar."""
    step.run.progress.add(purpose, len(answers))
    if type(step.run.grader).anticipate is Grader.anticipate:
        return  # it does nothing, and making its table took a quarter of this process's time in steps of tiny-math
    problems = step.run.problems(purpose).rows(asked["id"].iloc[answers.index].tolist())
    step.run.grader.anticipate(problems.assign(response=answers["response"].tolist()))


def request_rows(step: Step, draw: Draw) -> pd.DataFrame:
    """One row per response to sample, second turns too: id, slot, sample, prompt_token_ids, the seed of its draws."""
    # Validation draws the same noise every time, so that two evaluations differ by the policy alone.
    moment = "held-out" if draw.purpose == "validation" else step.number
    key = (step.config.train.seed, draw.purpose, moment)
    problems = step.run.problems(draw.purpose)
    if draw.continues is None:
        return requested_rows(problems.rows(draw.ids), draw.first_slot, draw.n, draw.greedy, key)
    rows, scores = (step.run.store.read_rows(ref) for ref in draw.continues)
    of_rows, settings = problems.rows(rows["id"].tolist()), step.config.rollout.second_turn
    if draw.purpose == "validation":  # measured alike, however a run was trained
        settings = settings.model_copy(update={"children": 1, "shuffled": False})
    chat = step.config.data.chat_template_kwargs
    return second_turn_rows(with_scores(rows, scores), of_rows, step.run.tokenizer, settings, key, chat)


@phase("score", retries=2)
async def score(step: Step, draw: Draw, sampled: Rows) -> Scores:
    """Grade a shard's responses."""
    rows = step.run.store.read_rows(sampled.rows)
    problems = step.run.problems(draw.purpose).rows(rows["id"].tolist())
    done = step.number if draw.purpose == "validation" else max(step.number - 1, 0)
    scored = await asyncio.to_thread(grade_rows, step.run.grader, answered(rows, problems, done))
    seconds = scored.pop("exec_time").tolist() if "exec_time" in scored else []
    ref = step.run.store.write_rows(step.path(f"score-{draw.purpose}-{draw.shard:04d}.parquet"), scored)
    return Scores(rows=ref, cpu_seconds=seconds)


def check_graded(step: Step, scores: list[Ref]) -> None:
    """Raise RewardError when too many samples have no score (ares/grading/grader.py).

    Such scores are discarded, so that a resume asks the grader again instead of failing on them; and so are episodes
    whose environment failed.
    """
    tables = [step.run.store.read_rows(ref) for ref in scores]
    drawn = pd.concat([table[["id", "accuracy"]] for table in tables], ignore_index=True)
    try:
        check_scored(drawn, step.config.reward.max_unscored, f"step {step.number}")
    except RewardError:
        for ref, table in zip(scores, tables, strict=True):
            if table["accuracy"].isna().any():
                step.run.store.discard(ref)
        if step.config.environment is not None:
            _discard_broken_episodes(step)
        raise


def _discard_broken_episodes(step: Step) -> None:
    """Delete what a step has kept of shards with an episode whose environment failed, from that turn on; those of its
    evaluation too, which was drawn beside them."""
    store = step.run.store
    for path in sorted((store.directory / step.path("")).glob("*.parquet")):
        if path.name.startswith(("turn-", "rollout-")):
            rows = pd.read_parquet(path)
            if (rows["error" if "error" in rows else "episode_error"] != "").any():
                store.remove(path)
