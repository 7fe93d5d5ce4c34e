"""reward.kind=judge: a model behind an OpenAI-compatible URL reads each response and gives it a mark.

    template with {prompt}, {response}, {answer} ──▶ URL, once for each vote ──▶ reward.judge.mark finds the mark in
    each reply ──▶ mean of the votes, 0 at the lower end of reward.judge.scale and 1 at the upper

Replies with a mark are kept by what was asked, in `.judge.sqlite` beside the runs: the same question is paid for once,
also after a kill, but for those under way. A reply without a mark, or none in time, is no vote; a response without
votes has no score. Not covered: judges that compare responses; defence against responses that flatter the judge (it
reads them as they are).
"""

import hashlib
import json
import logging
import math
import re
import sqlite3
import statistics
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ares.config import JudgeConfig
from ares.data import ASKED
from ares.grading.functions import FunctionScore
from ares.grading.grader import RewardError
from ares.grading.openai_client import openai_client
from ares.store import runs_directory

logger = logging.getLogger(__name__)

OF_ONE_QUESTION = (400, 413, 422)
"""Refusals of what a question holds (it is too long, a filter objects): there is no vote, and the others go on."""
REPLIES = ".judge.sqlite"


class JudgeScorer:
    """Scores of a judge, as `load_grader` adds them up."""

    def __init__(self, config: JudgeConfig, replies: Path | None = None) -> None:
        """replies: the file that keeps them. Raises ConfigError without openai."""
        self.config, self._client = config, openai_client("reward.kind=judge", config.url, config.timeout)
        self._told = f"reward.kind=judge: {config.model} at {config.url}"
        self._path = replies or runs_directory() / REPLIES
        self._threads = ThreadPoolExecutor(config.at_once)  # of all shards that are graded at the same time
        self._asked, self._lock = 0, threading.Lock()
        self._of_questions = [threading.Lock() for _ in range(16**3)]

    @cached_property
    def _replies(self) -> sqlite3.Connection:
        """The file: a reply for each digest of what was asked. Runs may share it at the same time."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = sqlite3.connect(self._path, timeout=60, isolation_level=None, check_same_thread=False)
        file.execute("CREATE TABLE IF NOT EXISTS replies (asked TEXT PRIMARY KEY, reply TEXT NOT NULL)")
        return file

    def close(self) -> None:
        """Close the connections and the file."""
        self._threads.shutdown(cancel_futures=True)
        self._client.close()
        if "_replies" in vars(self):
            self._replies.close()

    def __call__(self, rows: pd.DataFrame, first: bool = False) -> list[FunctionScore]:
        """The score of each row. Raises RewardError if the judge is away or refuses; first: if it gives no marks."""
        questions = [self._question(row) for row in rows.to_dict("records")]
        votes = range(self.config.votes)
        asked = [(text, vote) for text in dict.fromkeys(questions) for vote in votes]
        replies = dict(zip(asked, self._threads.map(lambda each: self._reply(*each), asked), strict=True))
        said = [self._score([replies[text, vote] for vote in votes]) for text in questions]
        if first and all(each.failed for each in said):
            reply = next(iter(replies.values()))
            raise RewardError(f"{self._told}: no mark by reward.judge.mark={self.config.mark} in {reply!r:.200}")
        return said

    def _question(self, row: dict[Any, Any]) -> str:
        """The template, filled in at once: what a response says in braces stays as it is."""
        asked = row.get(ASKED, row["prompt"])
        if not isinstance(asked, str):
            asked = "\n\n".join(f"{message['role']}: {message['content']}" for message in asked)
        given = {"prompt": asked, "response": row["response"], "answer": str(row.get("answer", ""))}
        return re.sub(r"\{(prompt|response|answer)\}", lambda found: given[found[1]], self.config.template)

    def _reply(self, question: str, vote: int) -> str | None:
        """What the judge says, kept or asked for; None: nothing in time."""
        config = self.config
        asked: dict[str, Any] = {
            "model": config.model,
            "messages": [{"role": "user", "content": question}],
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "seed": vote,
        }
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        with self._of_questions[int(key[:3], 16)]:  # two shards may have the same question at the same time
            return self._kept(key) or self._ask(key, asked)  # what is kept has a mark, and so is not empty

    def _ask(self, key: str, asked: dict[str, Any]) -> str | None:
        import openai

        config = self.config
        with self._lock:
            self._asked += 1
            if config.most_requests is not None and self._asked > config.most_requests:
                raise RewardError(
                    f"{self._told}: reward.judge.most_requests={config.most_requests} requests were made since the "
                    "start; what was answered is kept, so the same command goes on with as many more"
                )
        try:
            reply = self._client.chat.completions.create(**asked).choices[0].message.content or ""
        except openai.APITimeoutError:
            logger.warning("%s: no reply in time", self._told)
            return None
        except openai.APIConnectionError as error:
            raise RewardError(f"{self._told}: {error.__cause__ or error}", may_pass=True) from error
        except openai.APIStatusError as error:
            if error.status_code in OF_ONE_QUESTION:
                logger.warning("%s: a question is refused: %.200s", self._told, error.message)
                return None
            raise RewardError(f"{self._told}: {error.message:.300}", may_pass=error.status_code >= 429) from error
        except (openai.APIError, ValueError, TypeError, IndexError, AttributeError) as error:
            raise RewardError(f"{self._told}: that is no chat completion: {error!s:.200}") from error
        reply = reply.encode("utf-8", "replace").decode()  # a lone surrogate cannot be kept
        return reply if self._mark(reply) is None else self._kept(key, reply)

    def _kept(self, key: str, reply: str | None = None) -> str | None:
        """A kept reply; with one, which is kept unless another run has got one meanwhile. Raises RewardError."""
        try:
            with self._lock:
                if reply is not None:
                    self._replies.execute("INSERT OR IGNORE INTO replies VALUES (?, ?)", (key, reply))
                found = self._replies.execute("SELECT reply FROM replies WHERE asked = ?", (key,)).fetchone()
        except (OSError, sqlite3.Error) as error:
            raise RewardError(f"{self._path}: the judge's replies cannot be kept: {error}", may_pass=True) from error
        return None if found is None else str(found[0])

    def _score(self, replies: list[str | None]) -> FunctionScore:
        marks = [mark for reply in replies if (mark := self._mark(reply or "")) is not None]
        if not marks:
            return FunctionScore(failed=True)
        low, high = self.config.scale
        said = {"marks": marks, "reply": (replies[0] or "")[-500:]}
        return FunctionScore((statistics.fmean(marks) - low) / (high - low), said)

    def _mark(self, reply: str) -> float | None:
        """The last mark of a reply, if it lies on the scale."""
        found = re.findall(self.config.mark, reply)
        try:
            mark = float(found[-1]) if found else math.nan
        except ValueError:
            return None
        low, high = self.config.scale
        return mark if low <= mark <= high else None
