"""Agents that ask by OpenAI's protocol: their requests as turns, what they return, what ends their episode alone."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from ares.config import ConfigError, EnvironmentConfig, load
from ares.data import DataError, each_row
from ares.environments import Answer, EnvironmentPool, Episode, Reply, kinds
from ares.step import OpenEnvironment
from tests.ares.builders import with_template
from tests.waiting import is_alive, wait_for_the_end

FILE = '''
import asyncio, contextlib, json, os, random, re, signal, subprocess, sys, time, urllib.error, urllib.request
import numpy as np
from ares.environments import Reply

TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]

def post(path="/chat/completions", key=None, timeout=None, **body):
    headers = {"authorization": "Bearer " + (key or os.environ["OPENAI_API_KEY"]), "content-type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, json.dumps(body).encode(), headers)
    try:
        return json.load(urllib.request.urlopen(request, timeout=timeout))
    except urllib.error.HTTPError as error:
        return error.code

def ask(messages, **others):
    choice = post(messages=messages, tools=TOOLS, **others)["choices"][0]
    messages.append(choice["message"])
    return choice

def user(text):
    return {"role": "user", "content": text}

def adds(row, seed, start=0):
    """Calls are answered by their sum so far, and an answer by a question, until it is `stop`."""
    messages, total, seen = [{"role": "system", "content": "Add."}, user(row["prompt"])], start, []
    while True:
        choice = ask(messages)
        seen.append(choice["finish_reason"])
        if choice["message"]["content"] == "stop":
            return Reply(reward=total, success=0.5, metrics={"calls": seen.count("tool_calls")}, answer=str(total))
        for call in choice["message"].get("tool_calls", []):
            total += json.loads(call["function"]["arguments"])["n"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(total)})
        if choice["finish_reason"] == "stop":
            messages.append(user("Go on."))

def draws(row, seed):
    messages = [user("?")]
    while True:
        ask(messages)
        messages.append(user(f"{random.random()} {np.random.rand()} {hash('a')}"))

def does(row, seed):
    """What the row says after a first answer."""
    messages = [user("?")]
    if row.get("at_once"):
        return eval(row["at_once"])
    said = ask(messages)["message"]
    return eval(row["do"])

async def later(row, seed):
    await asyncio.sleep(0)
    await asyncio.to_thread(post, messages=[user("?")])
    return 2

def refused(row, seed):
    codes = [post(key="other", messages=[user("?")]), post("/completions", prompt="?")]
    ask(messages := [user(str(codes))])

def starts(row, seed):
    program = subprocess.Popen(["sleep", "60"])
    ask([user(f"{os.getpid()} {program.pid}")])
    eval(row.get("then", "0"))

def hurried(row, seed):
    """Asks the same again, as clients do, when it has waited too long."""
    for _ in range(row["tries"]):
        with contextlib.suppress(TimeoutError):
            return float(post(timeout=0.3, messages=[user("?")])["choices"][0]["message"]["content"])
    return eval(row["then"])

def alone(row):
    pass
'''
NOBODY = "http://127.0.0.1:9"
CALL = '<tool_call>{{"name": "add", "arguments": {{"n": {}}}}}</tool_call>'


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agents") / "own.py"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def pool(file: Path) -> Iterator[EnvironmentPool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("http_proxy", NOBODY)
        for name in ("no_proxy", "NO_PROXY"):
            patch.delenv(name, raising=False)
        pool = EnvironmentPool(settings(file, "adds", processes=1, variables=["http_proxy"]))
        yield pool
        pool.close()


def settings(file: Path, name: str, **others: object) -> EnvironmentConfig:
    return EnvironmentConfig.model_validate({"kind": f"{file}:{name}"} | others)


def episode(pool: EnvironmentPool, name: str, **row: object) -> Episode:
    file = pool.config.kind.rpartition(":")[0]
    number = next(NUMBERS)
    return Episode(str(number), {"id": "a", "prompt": "1", "environment": f"{file}:{name}"} | row, number)


NUMBERS = iter(range(1000))


def begin(pool: EnvironmentPool, name: str, **row: object) -> tuple[Episode, Answer]:
    begun = episode(pool, name, **row)
    [answer] = pool.reset([begun])
    return replace(begun, heard=(answer.reply.digest() if answer.reply else "",)), answer


def step(pool: EnvironmentPool, played: Episode, text: str) -> tuple[Episode, Answer]:
    [answer] = pool.step([played], [text])
    heard = (*played.heard, answer.reply.digest()) if answer.reply else played.heard
    return replace(played, said=(*played.said, text), heard=heard), answer


def messages_of(answer: Answer) -> list[dict[str, str]]:
    """What the agent has asked."""
    assert answer.reply is not None, answer.error
    return answer.reply.chat["messages"]


def test_an_agents_requests_are_turns_and_what_it_returns_ends_the_episode(pool: EnvironmentPool) -> None:
    played, first = begin(pool, "adds")
    messages = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1"}]
    assert messages_of(first) == messages
    assert [each["function"]["name"] for each in first.reply.chat["tools"]] == ["add"]
    expected = {
        f"Two.{CALL.format(2)}{CALL.format(3)}": Reply(("2", "5")),
        "<tool_call>{broken</tool_call>": Reply("Go on."),
        CALL.format(4): Reply(("9",)),
        "stop": Reply(reward=9.0, done=True, success=0.5, metrics={"calls": 2.0}, answer="9"),
    }
    for text, reply in expected.items():
        played, answer = step(pool, played, text)
        assert answer == Answer(reply)


ENDS = {"3": 3.0, "None": None, "np.float32(0.5)": 0.5, "float(said['content'] == 'x')": 1.0}


def test_an_agent_returns_a_number_or_nothing_and_may_be_a_coroutine(pool: EnvironmentPool) -> None:
    for do, reward in ENDS.items():
        assert step(pool, begin(pool, "does", do=do)[0], "x")[1] == Answer(Reply(reward=reward, done=True))
    assert step(pool, begin(pool, "later")[0], "x")[1] == Answer(Reply(reward=2.0, done=True))


BROKEN_OFF = "request 2 does not continue the one before"
FAILURES = {
    "1 / 0": "own.py:50 in does: ZeroDivisionError: division by zero",
    "'much'": "TypeError: the reward is a number or None, not a value of type str",
    "float('nan')": "ValueError: the reward is nan, not a finite number",
    "os._exit(1)": "the agent's process died",
    "os.kill(os.getpid(), 9)": "the agent's process died",
    "os.kill(os.getppid(), 9)": "its process died",
    "ask([user('!'), said, user('x')])": BROKEN_OFF,
    "ask([user('?'), {**said, 'content': 'y'}, user('x')])": BROKEN_OFF,
    "ask(messages)": BROKEN_OFF,
    "ask([*messages, user('x'), user('y')])": BROKEN_OFF,
    "ask([user('?')])": BROKEN_OFF,
    "post(messages=[*messages, user('x')])": BROKEN_OFF,
    "ask([*messages, user('x')], stream=True)": "request 2: stream=True is not supported",
    "ask([*messages, user('x')], n=2)": "request 2: n=2 is not supported",
    "post(prompt='?')": "request 2: KeyError: 'messages'",
    "post(messages=5)": "request 2: TypeError: 'int' object is not iterable",
    "post(messages=[user('\\ud800')])": "surrogates not allowed",
    "post(messages=[user([{'type': 'image_url', 'image_url': 'x'}])])": "not [{'type': 'image_url'",
}  # fmt: skip


def test_what_an_agent_does_wrong_ends_its_episode_alone_in_one_line(pool: EnvironmentPool) -> None:
    bystander, _ = step(pool, begin(pool, "adds")[0], CALL.format(1))
    for do, why in FAILURES.items():
        answer = step(pool, begin(pool, "does", do=do)[0], "x")[1]
        assert answer.error.startswith(f"environment {pool.config.kind.rpartition(':')[0]}:does, row 'a', turn 1: "), do
        assert why in answer.error
        assert "\n" not in answer.error
    assert step(pool, bystander, CALL.format(1))[1].reply == Reply(("2",))  # rebuilt, where its process died
    assert begin(pool, "does", at_once="5")[1].error.endswith("reset: the agent returned without asking anything")


def test_only_chats_with_the_key_are_turns(pool: EnvironmentPool) -> None:
    answer = begin(pool, "refused")[1]
    assert messages_of(answer) == [{"role": "user", "content": "[401, 404]"}]


def test_an_episode_is_rebuilt_with_the_same_random_numbers_after_its_process_was_killed(pool: EnvironmentPool) -> None:
    played, _ = begin(pool, "draws")
    for text in "ab":
        played, _ = step(pool, played, text)
    assert "its process died" in step(pool, begin(pool, "does", do="os.kill(os.getppid(), 9)")[0], "x")[1].error
    after = step(pool, played, "c")[1]
    assert after.reply is not None
    other = replace(played, key="other", said=(), heard=())
    for text in "abc":
        other, again = step(pool, other, text)
    assert again == after
    assert other.heard[:2] == played.heard[1:]


def test_an_agent_whose_episode_is_over_is_killed_with_what_it_started(pool: EnvironmentPool) -> None:
    played, first = begin(pool, "starts")
    pids = pids_of(first)
    assert all(map(is_alive, pids))
    pool.end([played.key])
    wait_for_the_end(pids)


def test_agents_and_what_they_started_are_killed_with_their_process(file: Path) -> None:
    own = EnvironmentPool(settings(file, "starts", processes=1, timeout=2))
    bystanders = pids_of(begin(own, "starts")[1])
    played, first = begin(own, "starts", then="re.match('(a+)+b', 'a' * 60)")  # holds the GIL for years
    assert "took more than 2 s" in step(own, played, "x")[1].error
    wait_for_the_end(bystanders + pids_of(first))
    own.close()


@pytest.mark.parametrize("tries", [1, 9])
def test_a_client_that_gave_up_is_answered_when_it_asks_the_same_again(pool: EnvironmentPool, tries: int) -> None:
    others = {"ask([user('!')])": "turn 1: the client gave up on request 1, whose answer took ",
              "1.0": "turn 1: the client gave up on request 1, whose answer took ",
              "1 / 0": "ZeroDivisionError: division by zero; the client gave up on request 1, "}  # fmt: skip
    played = [begin(pool, "hurried", tries=tries, then=then)[0] for then in others]
    time.sleep(0.8)
    for each, why in zip(played, others.values(), strict=True):
        answer = step(pool, each, "7")[1]
        assert why in answer.error if tries == 1 else answer == Answer(Reply(reward=7.0, done=True))


def test_requests_of_agents_take_no_proxy(pool: EnvironmentPool) -> None:
    answer = begin(pool, "does", at_once="int(ask([user(os.environ['http_proxy'])])['message']['content'])")[1]
    assert messages_of(answer) == [{"role": "user", "content": NOBODY}]


def pids_of(started: Answer) -> list[int]:
    return [int(each) for each in messages_of(started)[0]["content"].split()]


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SHOWING = "{% if tools %}<tool_call> {{ tools[0]['function']['name'] }}\n{% endif %}" + CHATML
WRITTEN = "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("template", "begins"),
    [(SHOWING, "<tool_call> add\n<|im_start|>system\nAdd.<|im_end|>\n"),
     (CHATML, '<|im_start|>system\nAdd.\n\nYou may call these tools:\n{"name": "add", ')],
    ids=["shown by the template", "described"],
)  # fmt: skip
def test_a_prompt_is_the_agents_first_request_with_its_tools(file: Path, template: str, begins: str) -> None:
    own = with_template(template)
    config = load("tiny-math", [f"environment.kind={file}:adds", "environment.processes=1"])
    environment = OpenEnvironment.of(config, own)
    raw = pd.DataFrame({"prompt": ["1"], "answer": ["3"]}, index=[1])
    try:
        [row] = each_row(environment.begin(raw, "rows", config.data), environment.data, "answer", tokenizer=own)
        with pytest.raises(DataError, match=r"^rows:1: .*holds the special token <\|im_end\|>$"):
            environment.begin(raw.assign(prompt="<|im_end|>"), "rows", config.data)
    finally:
        environment.close()
    assert not row.wrong
    assert row.text.startswith(begins)
    assert row.text.endswith(WRITTEN)


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("alone", {}, "own.py:alone is not a class, nor an agent, which takes a row and a seed"),
        ("adds", {"begin": 1}, "own.py:adds: got an unexpected keyword argument 'begin'"),
        ("TOOLS", {}, "own.py:TOOLS is not a class or a function"),
    ],
)
def test_a_function_that_is_no_agent_is_refused(file: Path, name: str, given: dict[str, int], why: str) -> None:
    config = settings(file, name, settings=given)
    with pytest.raises(ConfigError, match=why):
        kinds.load(config.kind, config)
