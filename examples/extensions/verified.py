r"""Environments of verifiers 0.4, which play an episode themselves: ours answers the model that they ask.

    ares ── reset, step ──▶ Verified ── lines of JSON ──▶ this file, run by a Python that has verifiers
                                                          verifiers ── chat completions, on loopback ──▶ a line of JSON

With a taskset tasksets/twice.py that is not installed (tests/e2e/test_verified.py writes one):

    python -m venv v && v/bin/pip install verifiers==0.4.0
    ares train tiny-math environment.kind=examples/extensions/verified.py:Verified \
        environment.settings.python=v/bin/python environment.settings.folder=tasksets \
        'environment.settings.environment={taskset: {id: twice}}' environment.max_turns=3 environment.timeout=60 \
        reward.kind=environment 'data.train=episodes?size=16' 'data.validation=episodes?size=4&seed=90' --run verified

Covered: conversations with one agent, also with a simulated user. Not covered: tools over MCP, containers, and agents
that change their history.
"""

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import types
from typing import Any, ClassVar

KEYS = map(str, itertools.count())


class Verified:
    """An episode: the task of a taskset at the place `seed`. python: one that has verifiers. environment: verifiers'
    settings, as {taskset: {id: NAME}}. folder: of a taskset that is not installed."""

    player: ClassVar[Any] = None  # of all episodes: importing verifiers takes seconds

    def __init__(self, python: str, environment: dict[str, Any], folder: str = "") -> None:
        self.key = next(KEYS)
        if Verified.player is None or Verified.player.poll() is not None:
            command = [python, "-P", __file__, json.dumps(environment)]
            variables = os.environ | {"PYTHONPATH": folder}  # not our packages
            Verified.player = subprocess.Popen(
                command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )

    def reset(self, row: dict[str, Any], seed: int) -> str:
        """What the agent is asked first."""
        return self._tell(seed=seed)["observation"]

    def step(self, text: str) -> Any:
        """What it is asked next, or verifiers' reward."""
        from ares.environments import Reply

        return Reply(**self._tell(text=text))

    def close(self) -> None:
        """Give the episode up, if it is not over."""
        self._write()

    def _tell(self, **message: Any) -> dict[str, Any]:
        """Raises RuntimeError if verifiers fails."""
        self._write(**message)
        told = json.loads(Verified.player.stdout.readline() or '{"error": "the process of verifiers has ended"}')
        if "error" in told:
            raise RuntimeError(told["error"])
        return told

    def _write(self, **message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # then there is no answer
            Verified.player.stdin.write(json.dumps({"key": self.key, **message}) + "\n")
            Verified.player.stdin.flush()


async def play(settings: dict[str, Any]) -> None:
    """In verifiers' Python: play the episodes that standard input begins, with what it says as the model's answers."""
    import httpx
    import verifiers.v1 as vf  # type: ignore[import-not-found]
    from aiohttp import web
    from verifiers.v1.configs.agent import agent_config_fields  # type: ignore[import-not-found]
    from verifiers.v1.dialects.chat import message_to_wire  # type: ignore[import-not-found]
    from verifiers.v1.runtimes import ProgramResult  # type: ignore[import-not-found]
    from verifiers.v1.utils.loaders import load_environment, resolve_env_config  # type: ignore[import-not-found]

    class Chat(vf.Harness[vf.HarnessConfig]):
        """Asks for one answer; verifiers' own harnesses install a program for it."""

        APPENDS_SYSTEM_PROMPT, SUPPORTS_RESUME, EXECUTES_CODE, NEEDS_CONTAINER = True, True, False, False

        async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data):  # type: ignore[no-untyped-def]
            system, asked = self.resolve_prompt(data)
            messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else map(message_to_wire, asked)
            messages = [*([{"role": "system", "content": system}] if system else []), *messages]
            async with httpx.AsyncClient(timeout=None, headers={"authorization": f"Bearer {secret}"}) as client:
                body = {"model": ctx.model, "messages": messages}
                answer = await client.post(f"{endpoint}/chat/completions", json=body)
            return ProgramResult(int(answer.is_error), "", answer.text)

    sys.modules["chat_of_ares"] = module = types.ModuleType("chat_of_ares")
    vars(module).update(Chat=Chat, __all__=["Chat"])
    seats = agent_config_fields(resolve_env_config(settings))
    ours = {"harness": {"id": "chat_of_ares"}, "runtime": {"type": "subprocess"}}
    env = load_environment(resolve_env_config(settings | {seat: settings.get(seat, {}) | ours for seat in seats}))
    source, tasks = iter(env.taskset.load()), list[vf.Task]()
    answers: dict[str, asyncio.Future[str]] = {}
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what verifiers prints is not for ares

    async def ask(request: web.Request) -> web.Response:
        key, messages = request.match_info["key"], (await request.json())["messages"]
        heard = list(itertools.takewhile(lambda each: each["role"] != "assistant", reversed(messages)))
        answers[key] = asyncio.get_running_loop().create_future()
        lines.write(json.dumps({"observation": "\n\n".join(each["content"] for each in reversed(heard))}) + "\n")
        said = {"role": "assistant", "content": await answers[key]}
        choice = {"index": 0, "finish_reason": "stop", "message": said}
        return web.json_response({"id": key, "object": "chat.completion", "created": 0, "model": "ares",
                                  "choices": [choice]})  # fmt: skip

    async def episode(key: str, seed: int, port: int) -> None:
        tasks.extend(itertools.islice(source, max(0, seed + 1 - len(tasks))))
        if seed >= len(tasks):
            lines.write(json.dumps({"error": f"the taskset has {len(tasks)} tasks, none at place {seed}"}) + "\n")
            return
        client = vf.EvalClientConfig(base_url=f"http://127.0.0.1:{port}/{key}", api_key_var="NONE")
        played = await env.run_slot(env.slots(tasks[seed])[0], vf.ModelContext("ares", client))
        errors = [*played.errors, *(error for trace in played.traces for error in trace.errors)]
        reward = sum(trace.reward for trace in played.traces)
        over = {"observation": "", "reward": reward, "done": True, "success": min(max(reward, 0.0), 1.0)}
        lines.write(json.dumps({"error": errors[0].message} if errors else over) + "\n")

    app = web.Application()
    app.router.add_post("/{key}/chat/completions", ask)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port, episodes = runner.addresses[0][1], dict[str, asyncio.Task[None]]()
    async with env.serving():
        while line := await asyncio.to_thread(sys.stdin.readline):
            told = json.loads(line)
            if "seed" in told:
                episodes[told["key"]] = asyncio.create_task(episode(told["key"], told["seed"], port))
            elif "text" in told:
                answers.pop(told["key"]).set_result(told["text"])
            else:
                episodes.pop(told["key"]).cancel()
    os._exit(0)  # ares is gone: what is under way is nobody's


if __name__ == "__main__":
    asyncio.run(play(json.loads(sys.argv[1])))
