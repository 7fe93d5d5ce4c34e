"""reward.kind=model: a reward model reads each response and gives it a score.

    problem and response as a chat (without a chat template: as a pair of texts) ──▶ classifier ──▶ its one logit: the
    score, on whatever scale it was trained; not a number, or too long for the model: no score

It lives in the process that grades; it shares the GPU that reward.model.device=cuda names with whatever else is there,
which nobody has tried. Not covered: models behind a URL (judge.py), which say a mark; models that compare two responses
or score single steps.
"""

import itertools
import math
import threading
from typing import Any

import pandas as pd
import torch
from transformers import AutoModelForSequenceClassification

from ares.config import ConfigError, ModelConfig, RewardModelConfig
from ares.data import ASKED, load_tokenizer, write_chat
from ares.grading.functions import FunctionScore
from ares.models import ModelError, check_weight_files, read_settings, read_weights

Asked = tuple[list[dict[str, Any]], str]
"""The messages of a problem, and a response."""


class RewardModel:
    """The classifier, with its tokenizer."""

    def __init__(self, config: RewardModelConfig) -> None:
        """Raises ModelError."""
        of = ModelConfig(path=config.path)
        model = read_weights(AutoModelForSequenceClassification, read_settings(of), of)
        self.config, self.tokenizer = config, load_tokenizer(config.path)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.model = model.to(config.device).eval()
        positions = getattr(model.config, "max_position_embeddings", math.inf)
        numbered = (each for name, each in model.named_modules() if name.endswith("position_embeddings"))
        padding = next((getattr(each, "padding_idx", None) for each in numbered), None)
        unused = 0 if padding is None else padding + 1  # RoBERTa counts positions from there
        self.longest = min(self.tokenizer.model_max_length, positions - unused)

    @torch.inference_mode()
    def scores(self, asked: list[Asked]) -> list[float | None]:
        """The score of each response; None where it is not finite or does not fit."""
        torch.set_num_threads(self.config.threads)  # a setting of the calling thread
        encoded = [self._encode(*each) for each in asked]
        fits = [place for place, each in enumerate(encoded) if len(each["input_ids"]) <= self.longest]
        scores: list[float | None] = [None] * len(asked)
        for start in range(0, len(fits), self.config.batch):
            places = fits[start : start + self.config.batch]
            batch = self.tokenizer.pad([encoded[place] for place in places], padding_side="right", return_tensors="pt")
            # A decoder's score is that of its last token that is not padding: a token of its own, not the end token.
            ids = batch["input_ids"]
            unused = next(token for token in itertools.count() if not (ids == token).any())
            self.model.config.pad_token_id = unused
            batch["input_ids"] = ids.where(batch["attention_mask"].bool(), unused)
            logits = self.model(**batch.to(self.model.device)).logits[:, 0].float().cpu().tolist()
            for place, logit in zip(places, logits, strict=True):
                scores[place] = logit if math.isfinite(logit) else None
        return scores

    def _encode(self, messages: list[dict[str, Any]], response: str) -> Any:
        """Token ids, and what else the model reads of each."""
        if self.tokenizer.chat_template is None:
            problem = "\n\n".join(str(message["content"]) for message in messages)
            return self.tokenizer(problem, response, verbose=False)
        chat = [*messages, {"role": "assistant", "content": response}]
        text = write_chat(self.tokenizer, chat, {}, begins=False)
        return self.tokenizer(text, add_special_tokens=False, verbose=False)


class RewardModelScorer:
    """Scores of a reward model, as `load_grader` adds them up. The model is loaded by the first rows."""

    def __init__(self, config: RewardModelConfig) -> None:
        """Checks the model's files. Raises ConfigError."""
        of = ModelConfig(path=config.path)
        try:
            check_weight_files(of, AutoModelForSequenceClassification)
            if (outputs := read_settings(of).num_labels) != 1:
                raise ModelError(f"model.path={config.path}: it has {outputs} outputs, and a reward model has one")
        except ModelError as error:
            raise ConfigError(str(error).replace("model.path", "reward.model.path", 1)) from error
        self.config, self._lock = config, threading.Lock()
        self._model: RewardModel | None = None

    def __call__(self, rows: pd.DataFrame, first: bool = False) -> list[FunctionScore]:
        """The score of each row."""
        asked = [(_messages(row.get(ASKED, row["prompt"])), row["response"]) for row in rows.to_dict("records")]
        with self._lock:  # shards may be graded at the same time
            self._model = self._model or RewardModel(self.config)
            scores = self._model.scores(asked)
        return [FunctionScore(score, failed=score is None) for score in scores]

    def close(self) -> None:
        """Free the model."""
        self._model = None


def _messages(asked: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": asked}] if isinstance(asked, str) else list(asked)
