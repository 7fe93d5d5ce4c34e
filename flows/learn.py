"""Learning from data: a step trains on rows of the train set. Nothing is sampled but held-out answers.

    step 0      evaluate ─▶ COMMIT 0
    step n      the next rows ─▶ (of pairs: experience) ─▶ shape ─▶ update ─▶ evaluate ─▶ checkpoint ─▶ COMMIT n

Not covered: the loop over steps (flows/train.py), what is learnt of a row (ares/step/demonstrations.py).
"""

from ares.runs import Run
from flows.commit import commit, end_step, evaluate_policy
from tasks.demonstrations import next_rows, no_rows, weigh_rows
from tasks.training import experience, update


async def begin(run: Run) -> None:
    """The first evaluation, of the policy before it has learnt anything."""
    step = run.step(0)
    commit(step, {"samples": no_rows(step)}, {}, await evaluate_policy(step))


async def learn_step(run: Run, number: int) -> None:
    """One step on the next rows."""
    step = run.step(number)
    rows, is_pairs = next_rows(step), run.config.learns_from == "pairs"
    measured = [await experience(step, [rows], [], "experience")] if is_pairs else []
    shaped = await weigh_rows(step, rows, measured)
    step.train_on(shaped.batch)
    updated = await update(step, shaped.batch)
    step.state.take_update(updated.beta, int(updated.metrics["actor/skipped_updates"]))
    await end_step(step, {"batch": shaped.batch, "samples": shaped.samples}, shaped.metrics | updated.metrics)
