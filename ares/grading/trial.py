"""The first call of a user's grader: on two made-up responses, before a run is created, so that a mistake in it costs
seconds. Also the rows that graders are given.

The responses are made up because the policy's need the model loaded and a run's Ray: a mistake would then show half a
minute later. What only the policy's own responses reveal shows in the bootstrap's first shard.

Not covered: checking the grades (each grader's own).
"""

import pandas as pd
from transformers import PreTrainedTokenizerBase

from ares.data import OWN, Problems
from ares.grading.functions import STEP
from ares.grading.grader import Grader, RewardError
from rewards.math import answer_text

RIGHT = "<think>\nIt is {answer}.\n</think>\n<answer>\\boxed{{{answer}}}</answer>\n#### {answer}"
"""A response with the answer in the places where rewards look for it; the other one is empty, as a policy's may be."""
OF_PROMPTS = ("id", "prompt", "prompt_token_ids")
"""Columns that samples take from their problems; second turns have their own."""


def answered(sampled: pd.DataFrame, problems: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Rows as graders are given them: samples drawn after `steps` training steps, with the columns of their problems.

    A data set may have columns called response or sample: the policy's keep the name.
    """
    twice = [name for name in sampled if name in problems]
    problems = problems.drop(columns=[name for name in ("prompt_token_ids", *twice) if name in OF_PROMPTS])
    own = {name: f"{OWN}{name}" for name in twice if name not in OF_PROMPTS}
    return sampled.join(problems.rename(columns=own)).assign(**{STEP: steps})


def try_on(grader: Grader, problems: Problems, tokenizer: PreTrainedTokenizerBase) -> None:
    """Have a grader grade the first problem's answer, and an empty response to the second. Raises RewardError."""
    frame = problems.frame.iloc[[0, min(1, len(problems) - 1)]].reset_index(drop=True)
    texts = [RIGHT.format(answer=answer_text(frame["answer"][0]) if "answer" in frame else "42"), ""]
    sampled = pd.DataFrame({"id": frame["id"], "slot": [0, 1], "sample": 0, "response": texts, "finish_reason": "stop"})
    token_ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    try:
        grader.try_on(answered(sampled.assign(token_ids=token_ids), frame, 0))
    except RewardError as error:
        raise RewardError(f"First call, with two responses to problems of {problems.source}: {error}") from None
