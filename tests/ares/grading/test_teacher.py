"""A teacher behind a URL, before a server on loopback that answers as vLLM's does and counts what it is asked."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from ares.config import ConfigError, ModelConfig
from ares.grading import teacher as module
from ares.grading.teacher import Teacher, TeacherError
from ares.runs import Run
from ares.step.collate import token_batch
from ares.store import RunStore
from tests.ares import builders
from tests.ares.builders import MODEL, PAD
from tests.ares.grading.stand_in import StandIn
from tests.ares.learner_builders import learner, sampled
from tests.short_runs import ares, train

pytest.importorskip("openai", reason="pip install 'ares[judge]'")
Change = Callable[[list[Any]], Any]


class Server(StandIn):
    """The tiny model, one sequence at a time; `change` is applied to each sequence's prompt_logprobs."""

    refusal = "Token id 308 is out of vocabulary"

    def __init__(self) -> None:
        super().__init__()
        self.model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        self.change: Change = lambda entries: entries

    @property
    def sequences(self) -> list[list[int]]:
        """All that were asked about."""
        return [ids for request in self.asked for ids in request["prompt"]]

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        assert (request["prompt_logprobs"], request["max_tokens"], request["model"]) == (0, 1, "big")
        made = [{"index": place, "text": "x", "finish_reason": "length",
                 "prompt_logprobs": self.change(self.entries(ids))}
                for place, ids in enumerate(request["prompt"])]  # fmt: skip
        return {"id": "x", "object": "text_completion", "created": 0, "model": "big", "choices": made[::-1]}

    @torch.no_grad()
    def entries(self, ids: list[int]) -> list[Any]:
        """Of each token its log-prob, as vLLM writes them."""
        logits = self.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        return [None, *({str(token): {"logprob": float(row[token]), "rank": 1, "decoded_token": "?"}}
                        for token, row in zip(ids[1:], logits, strict=False))]  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    with Server().serving() as made:
        yield made


def asking(url: str) -> Teacher:
    return Teacher(ModelConfig(path=str(MODEL), reference=url, reference_name="big"))


def test_its_log_probs_are_those_of_a_reference_here(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 3)  # of eight rows, whose prompts and responses differ in length
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    batch = token_batch(sampled(), PAD)
    batch.batch["response_mask"][0, 1] = 0  # where an environment speaks
    with asking(server.url) as teacher:
        found = teacher.measure(batch).tensor("ref_log_probs")
    own = learner().experience(batch).tensor("ref_log_probs")
    torch.testing.assert_close(found, own, atol=1e-5, rtol=0)
    assert own.count_nonzero() == batch.tensor("response_mask").sum()
    assert (len(server.sequences), server.keys) == (len(batch), {"Bearer a-key"})


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: None,
        lambda entries: entries[:-1],
        *(
            lambda entries, last=last: [*entries[:-1], last]
            for last in (None, *({"8": {"logprob": each}} for each in ("low", float("nan"), -9999.0)), {"9": {}})
        ),
    ],
)
def test_an_answer_that_is_none_is_told_in_one_line(server: Server, change: Change) -> None:
    server.change = change
    with asking(server.url) as teacher, pytest.raises(TeacherError) as raised:
        teacher.log_probs([[3, 7, 8]])
    assert str(raised.value).startswith(f"model.reference: big at {server.url}: no log-probs as vLLM gives them: ")
    assert "\n" not in str(raised.value)


def test_a_server_that_is_away_is_asked_again_and_one_that_refuses_is_not(server: Server) -> None:
    server.status = 400
    with asking(server.url) as teacher, pytest.raises(TeacherError, match="Token id 308 is out of vocabulary"):
        teacher.log_probs([[3, 308]])
    assert len(server.sequences) == 1
    server.status = 503
    with asking(server.url) as teacher, pytest.raises(TeacherError):
        teacher.log_probs([[3, 7]])
    assert len(server.sequences) == 1 + 3
    with asking("http://127.0.0.1:9/v1") as teacher, pytest.raises(TeacherError, match="refused"):
        teacher.log_probs([[3, 7]])


def by_url(url: str) -> list[str]:
    return ["algorithm=distill", "algorithm.kl.penalty=mse", f"model.reference={url}", "model.reference_name=big"]


def test_a_run_begins_only_with_a_teacher_that_answers(server: Server, tmp_path: Path) -> None:
    Run.open(builders.config(*by_url(server.url)), "taught", tmp_path).close()
    assert server.sequences == [[0, len(builders.tokenizer()) - 1]]
    server.status = 400
    with pytest.raises(TeacherError, match="out of vocabulary"):
        Run.open(builders.config(*by_url(server.url)), "other", tmp_path)
    assert not (tmp_path / "other" / "run.json").exists()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.reference_name=null", "model.reference_name is the model's name on a server"),
        (f"model.reference={MODEL}", "model.reference_name is the model's name on a server"),
        ("algorithm.kl.penalty=full", "set penalty=mse"),
        ("rollout.temperature=0.7", "log-probs at temperature 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(setting: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        builders.config(*by_url("http://127.0.0.1:9/v1"), setting)


@pytest.mark.slow
def test_a_killed_run_asks_for_nothing_twice_and_ends_bit_identical(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    settings = [*by_url(server.url), "train.steps=3"]
    assert train(tmp_path / "one", "taught", *settings) == 0
    alone, server.asked = len(server.sequences), []
    assert train(tmp_path / "two", "taught", *settings, kill_at="2:update:inside") == -9
    assert ares(tmp_path / "two", "resume", "taught").returncode == 0
    assert len(server.sequences) == alone
    commits = [RunStore(tmp_path / each / "taught").read_commit(3) for each in ("one", "two")]
    assert commits[0].digest() == commits[1].digest()
    assert "a-key" not in (tmp_path / "one" / "taught" / "run.json").read_text()
