"""`ares serve`: OpenAI's protocol over an engine, exact to the token, before its own clients."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM

from algorithms.keys import derive_seed
from ares.config import JudgeConfig, ModelConfig
from ares.engines import Request, SamplingSettings, TransformersEngine
from ares.grading.judge import JudgeScorer
from ares.grading.teacher import Teacher
from ares.serving import Limits, policy_app
from tests.ares.builders import MODEL, engine, tokenizer
from tests.shared_run import REPOSITORY

LIMITS = Limits(24, 64, len(tokenizer()))
MESSAGES = [{"role": "user", "content": "What is 12+6?"}]


class Served:
    """The tiny model, and the sizes of the calls that its engine was given."""

    def __init__(self, key: str | None = None, limits: Limits = LIMITS) -> None:
        self.engine: TransformersEngine = engine()
        self.calls: list[int] = []
        self.app = policy_app(self.sample, tokenizer(), "tiny", limits, {}, key, measure=self.measure)

    async def measure(self, sequences: list[list[int]]) -> list[list[float]]:
        return [[-float(token) for token in ids[1:]] for ids in sequences]

    async def sample(self, requests: list[Request], settings: SamplingSettings) -> pd.DataFrame:
        self.calls.append(len(requests))
        answers = await asyncio.to_thread(self.engine.generate, requests, settings)
        texts = tokenizer().batch_decode([answer.token_ids.tolist() for answer in answers], skip_special_tokens=True)
        return pd.DataFrame([{**vars(answer), "response": text} for answer, text in zip(answers, texts, strict=True)])

    def post(self, path: str, *bodies: dict[str, Any], **headers: str) -> list[httpx.Response]:
        """The answers to requests that are made at once."""

        async def ask() -> list[httpx.Response]:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)  # they are answered, then logged
            sent = {"authorization": "Bearer ", "content-type": "application/json"} | headers
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=sent) as client:
                return await asyncio.gather(*(client.post(path, content=json.dumps(body)) for body in bodies))

        return asyncio.run(ask())


def test_a_chat_is_answered_with_exactly_what_the_engine_samples() -> None:
    served = Served()
    exact = {"logprobs": True, "return_token_ids": True, "seed": 7, "max_tokens": 12}
    (answer,) = served.post("/v1/chat/completions", {"messages": MESSAGES, **exact})
    said = answer.json()
    text = tokenizer().apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True)
    prompt = tokenizer()(text, add_special_tokens=False)["input_ids"]
    (expected,) = served.engine.generate(
        [Request(prompt, derive_seed(7, "serve", 0))], SamplingSettings(1.0, 1.0, 12)
    )  # fmt: skip
    (choice,) = said["choices"]
    assert said["prompt_token_ids"] == prompt
    assert choice["token_ids"] == expected.token_ids.tolist()
    shown = np.array([each["logprob"] for each in choice["logprobs"]["content"]], np.float32)
    assert np.array_equal(shown, expected.log_probs)  # every bit of them
    assert choice["message"]["content"] == tokenizer().decode(expected.token_ids, skip_special_tokens=True)
    assert said["usage"] == {"prompt_tokens": len(prompt), "completion_tokens": len(expected.token_ids),
                             "total_tokens": len(prompt) + len(expected.token_ids)}  # fmt: skip
    (raw,) = served.post("/inference/v1/generate", {"token_ids": prompt, "sampling_params": exact})
    assert raw.json()["choices"][0]["token_ids"] == choice["token_ids"]
    (plain,) = served.post("/v1/completions", {"prompt": prompt, **exact, "logprobs": 0})  # 0: no alternatives
    assert plain.json()["choices"][0]["token_ids"] == choice["token_ids"]
    assert len(plain.json()["choices"][0]["logprobs"]["token_logprobs"]) == len(choice["token_ids"])


def test_a_seed_repeats_an_answer_and_the_n_of_one_request_differ() -> None:
    served = Served()
    asked = {"messages": MESSAGES, "n": 4, "temperature": 2.0, "seed": 3}
    first, again = (answer.json()["choices"] for answer in served.post("/v1/chat/completions", asked, asked))
    assert first == again
    assert len({each["message"]["content"] for each in first}) == 4
    (unseeded,) = served.post("/v1/chat/completions", {"messages": MESSAGES, "n": 4, "temperature": 2.0})
    assert unseeded.json()["choices"] != first


def test_the_tokens_of_prompts_are_measured_as_vllm_does_it() -> None:
    served = Served()
    (answer,) = served.post("/v1/completions", {"prompt": [[5, 6, 7], [8, 9]], "prompt_logprobs": 0, "max_tokens": 1})
    found = [choice["prompt_logprobs"] for choice in answer.json()["choices"]]
    assert found == [[None, {"6": {"logprob": -6.0}}, {"7": {"logprob": -7.0}}], [None, {"9": {"logprob": -9.0}}]]
    assert (answer.json()["usage"]["prompt_tokens"], served.calls) == (5, [])


def test_a_stop_string_ends_an_answer_and_is_not_part_of_it() -> None:
    served = Served()
    asked = {"messages": MESSAGES, "seed": 7, "max_tokens": 12}
    (whole,) = served.post("/v1/chat/completions", asked)
    said = whole.json()["choices"][0]["message"]["content"]
    stop = said[2:4]
    (cut,) = served.post("/v1/chat/completions", asked | {"stop": [stop]})
    assert cut.json()["choices"][0]["message"]["content"] == said[: said.index(stop)]
    assert cut.json()["choices"][0]["finish_reason"] == "stop"


def test_what_clients_ask_at_once_is_sampled_together() -> None:
    served = Served()
    bodies = [{"messages": MESSAGES, "seed": seed, "temperature": [1.0, 0.5][seed % 2]} for seed in range(16)]
    answers = served.post("/v1/chat/completions", *bodies)
    assert [answer.status_code for answer in answers] == [200] * 16
    assert sum(served.calls) == 16
    assert len(served.calls) <= 4  # two ways of sampling


@pytest.mark.parametrize(
    ("path", "body", "code", "told"),
    [
        ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}, 422, "stream=True: not done here"),
        ("/v1/chat/completions", {"messages": MESSAGES, "top_logprobs": 5}, 422, "top_logprobs=5: not done"),
        ("/v1/chat/completions", {"messages": MESSAGES, "response_format": {"type": "json"}}, 422, "response_format="),
        ("/inference/v1/generate", {"token_ids": [3], "sampling_params": {"top_k": 5}}, 422, "top_k=5: not done here"),
        ("/inference/v1/generate", {"token_ids": [3], "stream": True}, 422, '"stream"'),
        ("/v1/completions", {"prompt": "1", "temperature": 200}, 400, "temperature=200: the engine samples at 0, or"),
        ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 60}, 400, "are more than 64"),
        ("/v1/chat/completions", {"messages": [{"role": "user"}]}, 400, "messages: "),
        ("/v1/chat/completions", {"messages": []}, 422, "List should have at least 1 item"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": {"a": 1}}]}, 400, "messages: "),
        ("/v1/completions", {"prompt": "\ud800"}, 400, "prompt: "),
        ("/v1/completions", {"prompt": "1", "stop": [""]}, 422, "stop"),
        ("/v1/completions", {"prompt": [[3], [4]]}, 400, "several at once only with prompt_logprobs"),
        ("/v1/completions", {"prompt": [], "prompt_logprobs": 0}, 400, "token ids are from 0"),
        ("/v1/completions", {"prompt": [[3, 4], [3, 5000]], "prompt_logprobs": 0}, 400, "token ids are from 0 to 308"),
        ("/v1/completions", {"prompt": [3] * 65, "prompt_logprobs": 0}, 400, "of 2 to 64 tokens, not of 65"),
        ("/v1/completions", {"prompt": [3], "prompt_logprobs": 1}, 422, '"prompt_logprobs"'),
        ("/inference/v1/generate", {"token_ids": [3, 5000]}, 400, "token ids are from 0 to 308"),
    ],
)
def test_what_cannot_be_answered_is_refused(path: str, body: dict[str, Any], code: int, told: str) -> None:
    served = Served()
    (answer,) = served.post(path, body)
    assert (answer.status_code, served.calls) == (code, [])
    assert told in answer.text


def test_fields_that_are_null_or_change_nothing_are_taken() -> None:
    body = {"messages": MESSAGES, "max_tokens": 2, "temperature": None, "n": None, "tool_choice": "auto", "user": "me"}
    assert Served().post("/v1/chat/completions", body)[0].status_code == 200


def test_of_an_engine_that_gives_log_probs_after_top_p_it_is_not_asked() -> None:
    of_vllm = replace(LIMITS, has_top_p=False, temperatures=(0.01, 2.0))
    served, asked = Served(limits=of_vllm), {"prompt": "1", "max_tokens": 2}
    bodies = [asked | {"top_p": 0.5}, asked | {"temperature": 0.001}, asked | {"temperature": 0}]
    assert [answer.status_code for answer in served.post("/v1/completions", *bodies)] == [400, 400, 200]


def test_a_model_that_writes_in_blocks_is_asked_for_whole_ones() -> None:
    served, asked = Served(limits=replace(LIMITS, multiple=7, response=56)), {"prompt": "1", "temperature": 0}
    (refused, given, usual) = served.post("/v1/completions", *(asked | {"max_tokens": n} for n in (8, 14, None)))
    assert "max_tokens=8: the model writes blocks of 7" in refused.text
    assert given.status_code == usual.status_code == 200


def test_a_request_that_fails_fails_alone() -> None:
    """One with an id beyond the model's was sampled with others, and all were told Internal Server Error."""
    served = Served(limits=replace(LIMITS, vocabulary=5000))
    bodies = [{"token_ids": [token], "sampling_params": {"max_tokens": 2}} for token in (3, 4000, 4)]
    good, bad, other = served.post("/inference/v1/generate", *bodies)
    assert (good.status_code, bad.status_code, other.status_code) == (200, 500, 200)


def test_more_requests_than_a_call_takes_are_several_calls() -> None:
    served = Served(limits=replace(LIMITS, batch=3))
    served.post("/v1/completions", {"prompt": "1", "n": 8, "max_tokens": 2})
    assert served.calls == [3, 3, 2]


@pytest.mark.parametrize(
    ("key", "headers", "code"),
    [
        ("secret", {}, 401),
        ("secret", {"authorization": "Bearer secret"}, 200),
        (None, {"host": "evil.example"}, 400),
    ],
)
def test_a_wrong_key_and_a_page_of_another_name_are_refused(
    key: str | None, headers: dict[str, str], code: int
) -> None:
    served = Served(key=key)
    (answer,) = served.post("/v1/completions", {"prompt": "1", "max_tokens": 2}, **headers)
    assert (answer.status_code, len(served.calls)) == (code, int(code == 200))


@pytest.mark.slow
def test_the_command_serves_a_model_to_openais_client_until_it_is_interrupted(tmp_path: Path) -> None:
    openai = pytest.importorskip("openai", reason="pip install 'ares[judge]'")
    command = [sys.executable, "-m", "flows.cli", "serve", str(MODEL), "--port", "0", "data.max_prompt_length=40",
               "rollout.max_response_length=40"]  # fmt: skip
    refused = subprocess.run([*command, "--host", "0.0.0.0"], cwd=REPOSITORY, capture_output=True, text=True)
    assert (refused.returncode, "give it a --key" in refused.stderr) == (2, True)
    environment = os.environ | {"ARES_RUNS": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as server:
        assert server.stdout is not None
        address = next(found[0] for line in server.stdout if (found := re.search(r"http://\S+", line)))
        client = openai.OpenAI(base_url=address, api_key="none", max_retries=0)
        said = client.chat.completions.create(model="any", messages=MESSAGES, temperature=0, max_tokens=32)
        answer = re.search(r"boxed\{(\d+)", str(said.choices[0].message.content))
        assert answer is not None
        asked = JudgeConfig(url=address, model="any", template="{response}", mark=r"boxed\{(\d+)", scale=(0, 100),
                            max_tokens=32)  # fmt: skip
        rows = pd.DataFrame({"prompt": ["Well?"], "response": [MESSAGES[0]["content"]]})
        (judged,) = JudgeScorer(asked, tmp_path / "replies")(rows)  # it may be a judge as well
        assert judged.score == float(answer[1]) / 100
        with Teacher(ModelConfig(path=str(MODEL), reference=address, reference_name="any")) as teacher:  # and a teacher
            found = teacher.log_probs([[3, 7, 8, 9], [4, 5]])
        naive = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        logits = naive(torch.tensor([[3, 7, 8]])).logits[0].log_softmax(-1)
        assert found[0] == pytest.approx(logits[range(3), [7, 8, 9]].tolist(), abs=1e-5)
        assert len(found[1]) == 1
        server.send_signal(signal.SIGINT)
        assert (server.wait(20), "Traceback" in server.stdout.read()) == (130, False)
