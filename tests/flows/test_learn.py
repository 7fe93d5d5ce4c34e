"""Runs that learn from demonstrations or pairs: their loss, kill and resume, and what other commands make of them."""

import math
import signal
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ares.browse.samples import token_rows
from ares.config import ConfigError, load
from ares.store import RunStore
from tests.ares.builders import MODEL
from tests.ares.data.code_rows import written
from tests.short_runs import ares, assert_same_commits, commits, told

CHATS = [
    [("user", f"{number}+{number}"), ("assistant", f"\\boxed{{{2 * number}}}"), ("user", f"{number}-1"),
     ("assistant", f"\\boxed{{{number - 1}}}")]
    for number in range(1, 7)
]  # fmt: skip
SETTINGS = ["data.validation=null", "rollout.prompts=4", "learner.global_batch_prompts=4", "train.steps=3",
            "train.checkpoint_every=2"]  # fmt: skip


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of runs with one, `whole`."""
    runs = tmp_path_factory.mktemp("learnt")
    rows = [{"prompt": [{"role": role, "content": text} for role, text in chat]} for chat in CHATS]
    written(runs / "chats.jsonl", *rows)
    assert sft(runs, "whole") == 0
    return runs


def sft(runs: Path, name: str, kill_at: str | None = None) -> int:
    settings = [f"data.train={runs / 'chats.jsonl'}", *SETTINGS]
    ended = ares(runs, "sft", "tiny-math", *settings, "--run", name, "--plain", kill_at=kill_at)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stdout + ended.stderr
    return ended.returncode


def test_the_loss_is_the_cross_entropy_of_what_the_assistant_says(learnt: Path) -> None:
    """In plain float64, chat by chat, of the first step's rows: no weight has changed yet."""
    run = RunStore(learnt / "whole")
    model = AutoModelForCausalLM.from_pretrained(MODEL).double().eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    losses: list[float] = []
    for number in run.read_rows(run.read_commit(1).artifacts["samples"])["id"].astype(int):
        ids, said = list[int](), list[int]()
        for role, text in CHATS[number]:
            parts = {f"<|im_start|>{role}\n": False, f"{text}<|im_end|>": role == "assistant", "\n": False}
            for part, counts in parts.items():
                own = tokenizer(part)["input_ids"]
                said += range(len(ids), len(ids) + len(own)) if counts else ()
                ids += own
        with torch.no_grad():
            log_probs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        losses += [-float(log_probs[place - 1, ids[place]]) for place in said]
    metrics = run.read_commit(1).metrics
    assert metrics["actor/pg_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert metrics["response_length/mean"] == len(losses) / 4


def test_its_tokens_have_no_log_probs_of_a_policy_before_or_of_an_engine(learnt: Path) -> None:
    """The page showed each with a log-prob of 0, of a probability of 1, where the loss was 12.9."""
    run = RunStore(learnt / "whole")
    batch = run.path(run.read_commit(1).artifacts["batch"])
    (tokens,) = token_rows(batch, [0], None)
    assert tokens.keys() == {"pieces", "advantage", "trained"}


@pytest.mark.parametrize(
    "moment",
    ["2:update:inside", *(pytest.param(at, marks=pytest.mark.slow) for at in ("2:shape:inside", "3:commit:before"))],
)
def test_killed_and_resumed_it_ends_in_the_same_bits(learnt: Path, moment: str) -> None:
    name = moment.replace(":", "-")
    assert sft(learnt, name, kill_at=moment) == -signal.SIGKILL
    assert ares(learnt, "resume", name).returncode == 0
    assert_same_commits(learnt, "whole", name)


def test_other_commands_read_it_or_say_why_they_do_not(learnt: Path, tmp_path: Path) -> None:
    for arguments, told_line in [
        (["status", "whole"], "whole  finished  step 3 of 3"),
        (["inspect", "whole", "--step", "0"], "whole, step 0: 0 samples"),
        (["verify", "whole"], "0 damaged"),
        (["export", "whole", "--out", str(tmp_path / "model")], "the weights of whole after step 3"),
    ]:
        said = told(learnt, *arguments)
        assert (said.returncode, told_line in said.stdout) == (0, True), said.stdout + said.stderr
    for arguments in (["rescore", "whole"], ["export", "whole", "--pairs", "--out", str(tmp_path / "pairs")]):
        said = told(learnt, *arguments)
        assert (said.returncode, "learns from demonstrations" in said.stderr) == (2, True), said.stderr


@pytest.mark.parametrize(
    ("setting", "told_line"),
    [
        ("algorithm=dpo", "needs learner.global_batch_prompts=16"),
        ("algorithm.kl.placement=loss", 'needs algorithm.kl.placement="none"'),
        ("algorithm.entropy_bonus.coef=0.1", "needs algorithm.entropy_bonus.coef=0.0"),
        ("rollout.temperature=0.7", "needs rollout.temperature=1.0"),
        ("algorithm.advantage.estimator=gae", "has no use for a critic"),
        ("algorithm.policy.old_log_probs=engine", 'needs algorithm.policy.old_log_probs="learner"'),
        ("algorithm.policy.settings={beta: 1}", "sft has no settings of its own"),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(setting: str, told_line: str) -> None:
    with pytest.raises(ConfigError, match=told_line):
        load("tiny-math", [setting] if setting == "algorithm=dpo" else ["algorithm=sft", setting])


def test_dpo_prefers_what_is_chosen_and_resumes_to_the_same_bits(learnt: Path) -> None:
    """Pairs of the right and a wrong answer; the first step's loss is ln 2, since policy and reference are the same."""
    rows = [{"prompt": chat[0][1], "chosen": chat[1][1], "rejected": "\\boxed{0}"} for chat in CHATS]
    settings = [f"data.train={written(learnt / 'pairs.jsonl', *rows)}", *SETTINGS, "learner.warmup_steps=0"]
    for name, kill_at in (("preferred", None), ("killed-pairs", "2:experience:inside")):
        ended = ares(learnt, "train", "tiny-math", "algorithm=dpo", *settings, "--run", name, kill_at=kill_at)
        assert ended.returncode == (0 if kill_at is None else -signal.SIGKILL), ended.stderr
    assert ares(learnt, "resume", "killed-pairs").returncode == 0
    assert_same_commits(learnt, "preferred", "killed-pairs")
    losses = [commit.metrics["dpo/loss"] for commit in commits(learnt, "preferred")[1:]]
    assert losses[0] == pytest.approx(math.log(2), abs=1e-6)
    assert losses[-1] < losses[0]
