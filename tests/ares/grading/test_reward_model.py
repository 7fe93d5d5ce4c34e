"""A reward model's scores are those of the classifier on one response at a time."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    RobertaConfig,
    RobertaForSequenceClassification,
)

from ares.config import ConfigError, RewardConfig, RewardModelConfig
from ares.data import ASKED
from ares.evaluation.evaluation import Evaluation
from ares.evaluation.request import EvaluationRequest
from ares.grading import load_grader
from ares.grading.reward_model import RewardModel, RewardModelScorer
from ares.runs.description import identity_of
from ares.runs.run import Run
from tests.ares.builders import MODEL, config, tokenizer, with_template

RESPONSES = ["4", "It is \\boxed{4}.", "", "<think>2+2</think> four " * 5, "5"]
ROWS = pd.DataFrame({
    "id": list("abcde"), "slot": range(5), "sample": 0, "prompt": "unused", "response": RESPONSES,
    ASKED: ["2+2=?", "2+2=?", [{"role": "user", "content": "2+2=?"}], "2+2=?", "1+1 is?"],
})  # fmt: skip


@torch.random.fork_rng()
def classifier(folder: Path, outputs: int = 1, weight: float = 1.0) -> str:
    """A tiny random checkpoint."""
    torch.manual_seed(1)
    settings = AutoConfig.from_pretrained(MODEL, num_labels=outputs)
    model = AutoModelForSequenceClassification.from_config(settings)
    model.score.weight.data = weight * (model.score.weight.data if weight < 10 else model.score.weight.data.sign())
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classifier(tmp_path_factory.mktemp("classifier"))


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_each_score_is_that_of_the_response_alone(path: str, batch: int) -> None:
    model = AutoModelForSequenceClassification.from_pretrained(path).double().eval()
    expected = []
    for asked, response in zip(["2+2=?"] * 4 + ["1+1 is?"], RESPONSES, strict=True):
        chat = [{"role": "user", "content": asked}, {"role": "assistant", "content": response}]
        ids = tokenizer()(tokenizer().apply_chat_template(chat, tokenize=False), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            expected.append(float(model.score(model.model(ids)[0][0, -1])))
    grader = load_grader(RewardConfig(kind="model", accuracy=0.0, model={"path": path, "batch": batch}))
    table = grader.grade(ROWS)
    assert table["score"].tolist() == pytest.approx(expected, abs=1e-5)
    assert table["accuracy"].tolist() == [float(score >= 0) for score in expected]
    assert len({round(score, 4) for score in expected}) == 5
    grader.close()


def test_where_padding_is_the_end_token_the_score_is_that_of_the_end(path: str, tmp_path: Path) -> None:
    """Without a token for padding the score was that of the token before the end."""
    own = with_template("{% for message in messages %}{{ message['content'] }}{% endfor %}{{ eos_token }}")
    own.pad_token = own.eos_token
    folder = shutil.copytree(path, tmp_path / "own")
    own.save_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(path).double().eval()
    asked = [([{"role": "user", "content": "2+2=?"}], response) for response in ("4", "it is 5")]
    with torch.no_grad():
        texts = [own(f"2+2=?{response}{own.eos_token}", return_tensors="pt")["input_ids"] for _, response in asked]
        expected = [float(model.score(model.model(ids)[0][0, -1])) for ids in texts]
    assert RewardModel(RewardModelConfig(path=str(folder))).scores(asked) == pytest.approx(expected, abs=1e-5)


def test_a_score_that_is_not_finite_and_a_response_that_does_not_fit_have_none(path: str, tmp_path: Path) -> None:
    endless = classifier(tmp_path / "endless", weight=3e38)
    said = RewardModelScorer(RewardModelConfig(path=endless))(ROWS)
    assert any(each.failed and each.score is None for each in said)
    long = ROWS.assign(response=["4 " * 5000, *RESPONSES[1:]])
    said = RewardModelScorer(RewardModelConfig(path=path))(long)
    assert [each.failed for each in said] == [True] + [False] * 4


def test_what_is_no_reward_model_is_refused(tmp_path: Path) -> None:
    for wrong, told in [
        (str(MODEL), "reward.model.path=.*its weight files do not hold a"),
        (str(tmp_path / "absent"), "reward.model.path=.*there is no such directory"),
        (classifier(tmp_path / "two", outputs=2), "reward.model.path=.*it has 2 outputs"),
    ]:
        with pytest.raises(ConfigError, match=told):
            load_grader(RewardConfig(kind="model", accuracy=0.0, model={"path": wrong}))


def test_a_run_or_an_evaluation_is_another_one_once_the_model_at_its_path_has_changed(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder, evaluations, identities = shutil.copytree(path, tmp_path / "judge"), [], set()
    for weight in (1.0, 2.0):
        classifier(folder, weight=weight)
        settings = ["reward={kind: model, accuracy: 0}", f"reward.model.path={folder}"]
        asked = EvaluationRequest(target=str(MODEL), profile="tiny-math", max_problems=2, overrides=settings)
        evaluations.append(Evaluation.open(asked).run)
        _, digests = Run.check(config(*settings), "run", tmp_path / "runs")
        identities.add(identity_of(config(), digests))
    assert len({run.store.directory for run in evaluations}) == len({run.identity for run in evaluations}) == 2
    assert len(identities) == 2


def test_the_last_places_that_robertas_positions_leave_unused_are_no_room(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        settings = RobertaConfig(
            vocab_size=len(tokenizer()), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
            max_position_embeddings=20, num_labels=1, pad_token_id=1,
        )  # fmt: skip
        RobertaForSequenceClassification(settings).save_pretrained(tmp_path)
    with_template(None).save_pretrained(tmp_path)
    model = RewardModel(RewardModelConfig(path=str(tmp_path)))
    scores = model.scores([([{"role": "user", "content": ""}], "1" * length) for length in (17, 18, 19, 20)])
    assert [score is None for score in scores] == [False, False, True, True]


def test_a_template_that_asks_for_the_date_has_the_policys(path: str, tmp_path: Path) -> None:
    own = with_template("{{ strftime_now('%Y') }}{% for message in messages %}{{ message['content'] }}{% endfor %}")
    folder = shutil.copytree(path, tmp_path / "dated")
    own.save_pretrained(folder)
    model = RewardModel(RewardModelConfig(path=str(folder)))
    ids = model._encode([{"role": "user", "content": "1"}], "2")["input_ids"]
    assert own.decode(ids) == "202412"
