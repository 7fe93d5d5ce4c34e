"""Agents: functions that ask a model by OpenAI's protocol, as any program does; their requests are an episode's turns.

    this process       reset: fork ─────────────▶ agent(row, seed)        in a process of its own
                       a chat, with tools ◀────── POST /v1/chat/completions, on loopback
    step("3 times…")   the answer ──────────────▶ it goes on
                       results of tools ◀──────── POST /v1/chat/completions: all messages, and what is new
    step("12")         the answer ──────────────▶ it returns its reward
                       done ◀────────────────────

The agent finds the address and a key in OPENAI_BASE_URL and OPENAI_API_KEY, where clients look. Each request must add
to the one before: the answer, then a message of a user or results of tools. The answer is sampled by the run, as any
turn: temperature and the like of a request change nothing. A client that repeats a request, as it waited too long for
the answer, is given it then. Not covered: streaming, several requests at once, token ids.
"""

import asyncio
import inspect
import json
import os
import random
import resource
import secrets
import signal
import socket
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler
from multiprocessing.connection import Pipe, wait
from typing import Any

import numpy as np

from ares.environments.call_formats import (
    MOST_BYTES,
    Message,
    read_following,
    read_message,
    strip_messages,
    write_answer,
)
from ares.environments.environment import Reply, checked
from rewards.child_process import end_with, where_raised

KEY = secrets.token_hex()
"""What this process's agents send."""
LIVE: "weakref.WeakSet[AgentEnvironment]" = weakref.WeakSet()
"""Those of this process, whose connections an agent inherits."""


class AgentFailed(Exception):
    """Why an agent's episode has no score, in one line."""


class AgentEnvironment:
    """An episode of an agent: what it asks, until it returns a reward, a Reply or nothing."""

    def __init__(self, agent: Callable[..., Any], settings: Mapping[str, Any], call_format: str) -> None:
        self._agent, self._settings, self._call_format = agent, settings, call_format
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # an episode has three open files
        self._server = socket.create_server(("127.0.0.1", 0))
        self._ending, self._theirs = Pipe(duplex=False)
        self._messages: list[Message] = []
        self._tools: list[Any] = []
        self._request: Request | None = None
        self._answer: dict[str, Any] = {}
        self._waited = 0.0
        self._gave_up = ""  # what to say if the client of the last request did not wait for its answer
        self._turn = self._process = 0
        LIVE.add(self)

    def reset(self, row: Mapping[str, Any], seed: int) -> Reply:
        """Start the agent, up to its first request: the whole chat."""
        parent = os.getpid()
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # of the thread that watches us
            self._process = os.fork()
        if not self._process:
            self._run(row, seed, parent)
        self._theirs.close()
        reply = self._next()
        if reply.chat is None:
            raise AgentFailed("the agent returned without asking anything")
        return reply

    def step(self, text: str) -> Reply:
        """Answer the agent's request, up to its next one or its end."""
        assert self._request is not None
        self._turn += 1
        message = write_answer(text, bool(self._tools), self._call_format, f"{self._turn:04}")
        self._messages.append(read_message(message))
        ends = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "finish_reason": ends, "message": message, "logprobs": None}
        self._answer = {"id": f"ares-{self._turn}", "object": "chat.completion", "created": 0, "model": "ares",
                        "choices": [choice]}  # fmt: skip
        self._waited = time.monotonic() - self._request.since
        self._send()
        return self._next()

    def close(self) -> None:
        """Kill the agent and what it has started."""
        self._hang_up()
        if self._process:
            with suppress(ProcessLookupError, PermissionError):  # it has ended, or leads no group yet
                os.killpg(self._process, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, 0)
            self._process = 0

    def _hang_up(self) -> None:
        self._server.close()
        self._ending.close()
        if self._request is not None:
            self._request.close()

    def _send(self) -> None:
        assert self._request is not None
        gave_up = f"the client gave up on request {self._turn}, whose answer took {self._waited:.3g} s"
        self._gave_up = "" if self._request.answer(200, self._answer) else gave_up
        self._request.close()

    def _next(self) -> Reply:
        while True:
            if self._ending in wait([self._server, self._ending]):
                return self._end()
            request = Request(self._server.accept()[0], ("", 0), None)  # type: ignore[arg-type]
            if not request.body:
                continue
            known, self._request = self._request, request
            if not self._gave_up:
                return self._read(request.body)
            if known is None or request.body != known.body:
                raise AgentFailed(self._gave_up)
            self._send()

    def _read(self, body: bytes) -> Reply:
        try:
            asked = json.loads(body)
            json.dumps(asked, ensure_ascii=False).encode()  # a lone surrogate is not valid text
            messages, tools = [read_message(each) for each in asked["messages"]], asked.get("tools") or []
            unsupported = [name for name, only in (("stream", False), ("n", 1)) if asked.get(name) not in (None, only)]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise AgentFailed(f"request {self._turn + 1}: {type(error).__name__}: {error!s:.200}") from error
        if unsupported:
            raise AgentFailed(f"request {self._turn + 1}: {unsupported[0]}={asked[unsupported[0]]!r} is not supported")
        known, self._messages = self._messages, messages
        if not known:
            self._tools = tools
            return Reply(chat={"messages": messages, "tools": tools})
        count = len(known)
        following = read_following(messages[count:])
        if strip_messages(known) != strip_messages(messages[:count]) or following is None or tools != self._tools:
            raise AgentFailed(
                f"request {self._turn + 1} does not continue the one before: its messages and the answer, then one "
                "message of a user or results of tools, with the same tools"
            )
        return Reply(following)

    def _end(self) -> Reply:
        try:
            told = json.loads(self._ending.recv_bytes())
        except EOFError as error:
            raise AgentFailed("the agent's process died") from error
        if wrong := "; ".join(filter(None, (told.get("error"), self._gave_up))):
            raise AgentFailed(wrong)
        return Reply(**told)

    def _run(self, row: Mapping[str, Any], seed: int, parent: int) -> None:
        """In the agent's process: run it to its end, which is told to the parent."""
        try:
            os.setpgid(0, 0)
            end_with(parent)
            random.seed(seed)  # a fork seeds it anew
            np.random.seed(seed % 2**32)
            port = self._server.getsockname()[1]
            for each in LIVE:
                each._hang_up()
            direct = ",".join(filter(None, (os.environ.get("no_proxy"), os.environ.get("NO_PROXY"), "127.0.0.1")))
            os.environ |= {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": KEY}
            os.environ |= {"no_proxy": direct, "NO_PROXY": direct}
            told = self._agent(row, seed, **self._settings)
            if inspect.iscoroutine(told):
                told = asyncio.run(told)
            reply = told if isinstance(told, Reply) else Reply(reward=told)
            over = asdict(checked(replace(reply, observation="", done=True), 0))
        except BaseException as error:  # noqa: BLE001 (whatever an agent raises ends its episode alone)
            over = {"error": where_raised(error, inspect.getfile(self._agent))}
        self._theirs.send_bytes(json.dumps(over).encode())
        sys.stdout.flush()
        os._exit(0)


class Request(BaseHTTPRequestHandler):
    """A request of an agent. If it is for a chat, it has a body and is answered later."""

    body = b""
    since = 0.0

    def do_POST(self) -> None:
        """Read it, or refuse it."""
        size = self.headers.get("content-length", "")
        if not size.isdigit() or int(size) > MOST_BYTES:
            self.answer(413, {"error": {"message": f"a request has a length, of at most {MOST_BYTES} bytes"}})
            return
        body = self.rfile.read(int(size))
        if not secrets.compare_digest(self.headers.get("authorization", "").encode(), f"Bearer {KEY}".encode()):
            self.answer(401, {"error": {"message": "wrong API key"}})
        elif not self.path.endswith("/chat/completions"):
            self.answer(404, {"error": {"message": f"{self.path}: there is only /v1/chat/completions"}})
        else:
            self.body, self.since = body, time.monotonic()

    def answer(self, code: int, body: Mapping[str, Any]) -> bool:
        """Answer it. Returns whether its client was still waiting."""
        text = json.dumps(body).encode()
        is_waiting = not wait([self.connection], 0)  # while it waits it sends nothing
        with suppress(ConnectionError):
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        return is_waiting

    def finish(self) -> None:
        """Keep the connection of a chat open, for the answer."""
        if not self.body:
            self.close()

    def close(self) -> None:
        """Close the connection."""
        super().finish()
        self.connection.close()

    def log_message(self, *_: Any) -> None:
        """Print nothing."""
