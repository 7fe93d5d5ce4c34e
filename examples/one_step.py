"""One training step of tiny-math from public names: `python -m examples.one_step`, at the root of the repository."""

from pathlib import Path
from tempfile import mkdtemp

import pandas as pd

from ares.config import load
from ares.grading import answered
from ares.runs import Run
from ares.step import engine_calls, graded, joined_rows, requested_rows, rewarded, sampled_rows, shape, token_batch
from ares.workers import EngineService, LearnerService


def main() -> dict[str, float]:
    """Sample, grade, measure, shape, update; returns the metrics."""
    config = load("tiny-math", ["algorithm.filter.enabled=false"])
    run, _ = Run.check(config, "one-step", Path(mkdtemp()))
    learner, engine = LearnerService(config, run.store), EngineService(config)
    engine.load_weights(0, learner.weights())
    # 16 problems × 8 samples = 128 rows: id, slot, sample, prompt_token_ids, seed → response, token_ids, log_probs
    problems, sampling = run.train_set.first(config.rollout.prompts), config.rollout
    asked = requested_rows(problems.frame, 0, sampling.n, False, (config.train.seed, "rollout", 1))
    ((_, requests, how),) = engine_calls(asked, sampling.temperature, sampling)
    answers = pd.concat(list(engine.generate(requests, how))).sort_index()
    sampled = asked[["id", "slot", "sample"]].join(answers)
    scores = run.grader.grade(answered(sampled, problems.rows(sampled["id"].tolist()), 0))
    # prompts [128, P], responses [128, L] → old_log_probs, ref_log_probs, entropies [128, L]
    batch = token_batch(sampled_rows([sampled], run.train_set), run.pad_id)
    batch = batch.union(learner.learner.experience(batch))
    rows = rewarded(joined_rows([sampled], [scores], run.train_set), config, None)
    shaped = shape(graded(batch, rows), run.state, config)  # → advantages, kl_coefs [128, L]; alpha, τ in run.state
    updated = learner.learner.update(batch)
    return shaped | updated.metrics


if __name__ == "__main__":
    for name, value in sorted(main().items()):
        print(f"{name:40s} {value:.4f}")
