"""Conversations: an agent that knows OpenAI's protocol alone is an episode, exact to the token."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
from transformers import PreTrainedTokenizerBase

from ares.data import TurnTemplate, rendered
from ares.engines import Request, SamplingSettings
from ares.environments.arithmetic import evaluate
from ares.environments.call_formats import write_answer
from ares.serving import Limits, policy_app
from tests.ares.builders import END, tokenizer

TOOL = {
    "type": "function",
    "function": {"name": "calculator", "description": "Calculates.", "parameters": {"type": "object", "properties": {
        "expression": {"type": "string"}}}},
}  # fmt: skip
ASKED = {"role": "user", "content": "What is 12*6+1?"}
Post = Callable[..., Awaitable[dict[str, Any]]]


def call(expression: str) -> str:
    return f'<tool_call>{{"name": "calculator", "arguments": {{"expression": "{expression}"}}}}</tool_call>'


SAID = [f"First.\n{call('12*6')}", f"{call('72+1')}{call('0')}", "It is 73."]


class Scripted:
    """A policy that says what it is told to, in tokens that its tokenizer would not choose."""

    def __init__(self, said: list[str], own: PreTrainedTokenizerBase | None = None) -> None:
        self.said, self.prompts, self.sampled = list(said), list[list[int]](), list[pd.Series]()
        self.app = policy_app(self.sample, own or tokenizer(), "scripted", Limits(64, 4000, 4000), {}, None)

    async def sample(self, requests: list[Request], _: SamplingSettings) -> pd.DataFrame:
        rows = []
        for request in requests:
            said = self.said.pop(0)
            ids = [token for each in said for token in tokenizer()(each, add_special_tokens=False)["input_ids"]]
            log_probs = -np.random.default_rng(len(self.prompts)).random(len(ids) + 1).astype(np.float32)
            self.prompts.append(list(request.prompt_token_ids))
            rows.append({"token_ids": np.array([*ids, END]), "log_probs": log_probs, "finish_reason": "stop",
                         "response": said})  # fmt: skip
        table = pd.DataFrame(rows)
        self.sampled += [row for _, row in table.iterrows()]
        return table

    def run(self, agent: Callable[[httpx.AsyncClient], Awaitable[Any]]) -> Any:
        async def talk() -> Any:
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(self.app), base_url="http://localhost/v1"
            ) as http:
                return await agent(http)

        return asyncio.run(talk())

    def chat(self, *conversations: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The episode of each conversation, asked one after the other."""

        async def ask(http: httpx.AsyncClient) -> list[dict[str, Any]]:
            names = [(await http.post("/chat/completions", json={"messages": each})).json()["id"]
                     for each in conversations]  # fmt: skip
            return [(await http.get(f"/episodes/{name}")).json() for name in names]

        return self.run(ask)


def test_an_agent_of_openais_client_that_calls_tools_is_one_episode() -> None:
    openai = pytest.importorskip("openai", reason="pip install 'ares[judge]'")

    async def agent(http: httpx.AsyncClient) -> tuple[list[Any], Any]:
        client = openai.AsyncOpenAI(base_url=str(http.base_url), api_key="none", http_client=http)
        messages: list[Any] = [ASKED]
        reasons = []
        while True:
            reply = await client.chat.completions.create(model="any", messages=messages, tools=[TOOL])
            said = reply.choices[0].message
            reasons.append(reply.choices[0].finish_reason)
            messages.append(said)
            if not said.tool_calls:
                return reasons, (await http.get(f"/episodes/{reply.id}")).json()
            for each in said.tool_calls:
                result = evaluate(json.loads(each.function.arguments)["expression"])
                messages.append({"role": "tool", "tool_call_id": each.id, "content": result})

    policy = Scripted(SAID)
    reasons, episode = policy.run(agent)
    assert reasons == ["tool_calls", "tool_calls", "stop"]
    ids, sampled = np.array(episode["token_ids"]), np.array(episode["sampled"])
    for name, found in (("token_ids", ids), ("log_probs", np.array(episode["log_probs"], np.float32))):
        assert np.array_equal(found[sampled], np.concatenate([row[name] for row in policy.sampled]))  # every bit
    assert not np.array(episode["log_probs"])[~sampled].any()
    assert '"calculator"' in tokenizer().decode(episode["prompt_token_ids"])
    template = TurnTemplate(tokenizer(), {})
    heard = [template.following(results, END, 99)[1] for results in (("72",), ("73", "0"))]
    assert ids[~sampled].tolist() == [*heard[0], *heard[1]]
    whole = [*episode["prompt_token_ids"], *ids]
    assert all(prompt == whole[: len(prompt)] for prompt in policy.prompts)
    assert (episode["turns"], episode["finish_reason"]) == (3, "stop")


FIRST = [ASKED, {"role": "assistant", "content": "72."}]
FOLLOW_UPS: dict[str, tuple[list[dict[str, Any]], int]] = {
    "a question": ([*FIRST, {"role": "user", "content": "And one?"}], 2),
    "stripped, in parts": (
        [ASKED, {"role": "assistant", "content": [{"type": "text", "text": " 72. "}], "refusal": None},
         {"role": "user", "content": [{"type": "text", "text": "And one?"}]}], 2),
    "another answer": ([ASKED, {"role": "assistant", "content": "73."}, {"role": "user", "content": "And one?"}], 1),
    "another question": ([{"role": "user", "content": "?"}, FIRST[1], {"role": "user", "content": "And one?"}], 1),
    "two questions": ([*FIRST, {"role": "user", "content": "And"}, {"role": "user", "content": "one?"}], 1),
    "a new system message": ([{"role": "system", "content": "Hm."}, *FIRST, {"role": "user", "content": "And?"}], 1),
}  # fmt: skip


@pytest.mark.parametrize("how", FOLLOW_UPS)
def test_a_request_that_changes_the_history_begins_an_episode_of_its_own(how: str) -> None:
    policy = Scripted(["72.", "73.", "again"])
    messages, turns = FOLLOW_UPS[how]
    _, second, again = policy.chat([ASKED], messages, messages)
    assert second["turns"] == again["turns"] == turns  # an answer may be continued more than once
    assert policy.prompts[1] == policy.prompts[2]
    if turns == 1:
        text = tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert tokenizer().decode(policy.prompts[1]) == text


def test_a_template_that_changes_what_was_said_is_rendered_again() -> None:
    own = copy.deepcopy(tokenizer())
    own.chat_template = own.chat_template.replace(
        "message['content']", "message['content'] | upper if message['role'] == 'assistant' else message['content']"
    )
    first, second = Scripted(["72.", "73."], own).chat([ASKED], FOLLOW_UPS["a question"][0])
    assert (first["turns"], second["turns"]) == (1, 1)


def test_answers_are_forgotten_once_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Scripted(["a", "b", "c"])
    of_one = len(tokenizer()(rendered(tokenizer(), [{"role": "user", "content": "a"}], {}))["input_ids"]) + 2
    monkeypatch.setattr("ares.conversations.MOST_TOKENS", 2 * of_one)  # prompts, and a letter and an end each
    *forgotten, kept = policy.chat(*([{"role": "user", "content": each}] for each in "abc"))
    assert all("remembered" in each["detail"] for each in forgotten)
    assert kept["turns"] == 1


def test_of_two_agents_with_the_same_first_answer_each_continues_its_own() -> None:
    """The second one's tokens became the history of both."""
    policy = Scripted(["72.", "72.", "73.", "74."])
    one, other, *after = policy.chat([ASKED], [ASKED], FOLLOW_UPS["a question"][0], FOLLOW_UPS["a question"][0])
    length = len(one["log_probs"])
    assert {tuple(each["log_probs"][:length]) for each in after} == {tuple(each["log_probs"]) for each in (one, other)}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "[" * 100_000}}]},
        {"role": "assistant", "content": 3},
        {"content": "?"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "{"}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
    ],
)
def test_messages_that_are_none_are_refused(message: dict[str, Any]) -> None:
    (answer,) = Scripted([]).run(
        lambda http: asyncio.gather(http.post("/chat/completions", json={"messages": [message]}))
    )
    assert answer.status_code == 400
    assert "messages: " in answer.text


def test_a_call_that_thoughts_only_mention_cuts_nothing_off() -> None:
    call = '<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'
    said = write_answer(f"<think>I may write <tool_call>.</think> Let me add. {call}", True, "hermes", "abcd")
    assert said["content"] == "<think>I may write <tool_call>.</think> Let me add."
    assert [each["function"]["name"] for each in said["tool_calls"]] == ["add"]


def test_calls_in_thoughts_that_the_template_opens_are_none() -> None:
    """They were made if the answer was cut off amid thinking."""
    own = copy.deepcopy(tokenizer())
    own.chat_template = own.chat_template.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n")
    policy = Scripted([f"Or {call('1')}?", f"Yes.</think>{call('1')}"], own)

    async def ask(http: httpx.AsyncClient) -> list[dict[str, Any]]:
        answers = [await http.post("/chat/completions", json={"messages": [ASKED], "tools": [TOOL]}) for _ in range(2)]
        return [answer.json()["choices"][0] for answer in answers]

    thought, called = policy.run(ask)
    assert thought["message"] == {"role": "assistant", "content": f"<think>Or {call('1')}?"}
    assert (called["finish_reason"], called["message"]["content"]) == ("tool_calls", "<think>Yes.</think>")
