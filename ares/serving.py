"""`ares serve`: a policy behind OpenAI's protocol, on loopback, with token ids and log-probs.

    POST /v1/chat/completions      messages → choices; with logprobs and return_token_ids what was sampled, exactly
    POST /v1/completions           prompt: text or token ids
    POST /inference/v1/generate    token_ids → choices of token ids and log-probs; nothing is rendered or parsed
    GET  /v1/episodes/ID           all turns of a conversation up to the answer ID, as one row of tokens
    GET  /v1/episodes, /v1/models

    request ──┐
    request ──┼▶ waiting, while the engine is busy ──▶ one call of the engine for all that are sampled alike
    request ──┘

Covered: requests of several clients in one batch, seeds, stop strings, tools. Not covered: which request continues a
conversation (ares/conversations.py), streaming, several policies, images. Two requests with one seed in different
batches may differ in their last bits.
"""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

import pandas as pd
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send
from transformers import PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from ares.conversations import Conversations
from ares.data import DataError
from ares.engines import Request as Asked
from ares.engines import SamplingSettings, until_stop
from ares.environments import MOST_BYTES, read_message, write_answer

Sample = Callable[[list[Asked], SamplingSettings], Awaitable[pd.DataFrame]]
"""Requests → a row each: token_ids, log_probs, finish_reason, response."""
Tokens = Annotated[int, Field(ge=1)]
Stop = Annotated[str, Field(min_length=1, max_length=200)]
PATIENCE = 1.0
"""Seconds between two looks at whether a client still waits."""
LOOPBACK = ["127.0.0.1", "localhost", "[::1]"]


class Sampling(BaseModel):
    """What the requests have in common; fields that are not here are ignored, as other servers do."""

    temperature: float = Field(1.0, ge=0, le=100)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: Tokens | None = None
    n: int = Field(1, ge=1, le=128)
    seed: int | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None
    logprobs: bool | int | None = None
    return_token_ids: bool = False
    stream: bool = False


class ChatRequest(Sampling):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_completion_tokens: Tokens | None = None
    tools: list[dict[str, Any]] | None = None


class TextRequest(Sampling):
    """POST /v1/completions."""

    prompt: str | list[int]


class GenerateRequest(BaseModel):
    """POST /inference/v1/generate."""

    token_ids: list[int] = Field(min_length=1)
    sampling_params: Sampling = Sampling()


@dataclass
class Batcher:
    """Collects requests while the engine is busy, and samples together what is sampled alike."""

    sample: Sample
    waiting: list[tuple[Asked, SamplingSettings, asyncio.Future[pd.Series]]] = field(default_factory=list)
    _work: asyncio.Task[None] | None = None

    async def answer(self, requests: list[Asked], settings: SamplingSettings) -> list[pd.Series]:
        """A row for each request."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in requests]
        self.waiting += [(asked, settings, future) for asked, future in zip(requests, futures, strict=True)]
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._serve())
        return await asyncio.gather(*futures)

    async def _serve(self) -> None:
        while self.waiting:
            await asyncio.sleep(0.002)  # those of one client arrive one after the other
            taken, self.waiting = self.waiting, []
            alike = defaultdict(list)
            for asked, settings, future in taken:
                if not future.done():  # else its client has gone
                    alike[settings].append((asked, future))
            for settings, group in alike.items():
                call = self.sample([asked for asked, _ in group], settings)
                (sampled,) = await asyncio.gather(call, return_exceptions=True)
                for place, (_, future) in enumerate(group):
                    if future.done():
                        continue
                    if isinstance(sampled, BaseException):
                        future.set_exception(sampled)
                    else:
                        future.set_result(sampled.iloc[place])


def refusal(message: str, code: int) -> JSONResponse:
    """An error as OpenAI's clients read it."""
    return JSONResponse({"error": {"message": message, "code": code}}, code)


class HeaderCheck:
    """Refuses a request by its headers, before anything of its body is read: without the key, or too long.

    Plain ASGI: behind Starlette's BaseHTTPMiddleware no handler learns that its client has gone.
    """

    def __init__(self, app: ASGIApp, key: str | None) -> None:
        self.app, self.key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        refused = self._refused(scope) if scope["type"] == "http" else None
        await (refused or self.app)(scope, receive, send)

    def _refused(self, scope: Scope) -> JSONResponse | None:
        headers = Headers(scope=scope)
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and not secrets.compare_digest(given.encode(), self.key.encode()):
            return refusal("wrong API key", 401)
        size = headers.get("content-length", "0" if scope["method"] == "GET" else "unknown")
        if not size.isdigit() or int(size) > MOST_BYTES:
            return refusal(f"a request has a length, of at most {MOST_BYTES} bytes", 413)
        return None


def policy_app(
    sample: Sample, tokenizer: PreTrainedTokenizerBase, name: str, limits: tuple[int, int],
    template: dict[str, Any], key: str | None, call_format: str = "hermes",
) -> FastAPI:  # fmt: skip
    """The application. name: of the model. limits: tokens of a response where a request says nothing, and of prompt and
    response at most. template: data.chat_template_kwargs. key: what clients must send as their API key, if anything.
    call_format: how responses call tools (environment.call_format).
    """
    batcher, started = Batcher(sample), int(time.time())
    conversations = Conversations(tokenizer, template, call_format, limits[1])
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    if key is None:  # then it is for this machine: a page of another name must not reach it through a browser
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK)

    app.add_middleware(HeaderCheck, key=key)

    @app.exception_handler(StarletteHTTPException)
    async def refuse(_: Request, error: StarletteHTTPException) -> JSONResponse:
        return refusal(str(error.detail), error.status_code)

    @app.exception_handler(RequestValidationError)
    async def explain(_: Request, error: RequestValidationError) -> JSONResponse:
        told = (f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors())
        return refusal("; ".join(told), 422)

    async def unless_gone(request: Request, answer: Awaitable[list[pd.Series]]) -> list[pd.Series]:
        """An answer that is given up when nobody waits for it any longer."""
        work = asyncio.ensure_future(answer)
        while not (await asyncio.wait([work], timeout=PATIENCE))[0]:
            if await request.is_disconnected():
                work.cancel()
                raise HTTPException(499, "nobody waits for the answer any longer")
        return work.result()

    async def choices(
        request: Request, ids: list[int], asked: Sampling, most: int | None = None
    ) -> list[dict[str, Any]]:
        if asked.stream:
            raise HTTPException(400, "stream=true: responses come whole here")
        if not ids or not all(0 <= each < len(tokenizer) for each in ids):
            raise HTTPException(400, f"token ids are from 0 to {len(tokenizer) - 1}, at least one")
        seed = secrets.randbits(63) if asked.seed is None else asked.seed
        stops = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
        limit = most or asked.max_tokens or min(limits[0], max(limits[1] - len(ids), 1))
        if len(ids) + limit > limits[1]:
            told = f"{len(ids)} tokens of the prompt and {limit} of the response are more than {limits[1]}"
            raise HTTPException(400, f"{told}, data.max_prompt_length and rollout.max_response_length together")
        settings = SamplingSettings(asked.temperature, asked.top_p, limit)
        requests = [Asked(ids, derive_seed(seed, "serve", place), stops=stops) for place in range(asked.n)]
        rows = await unless_gone(request, batcher.answer(requests, settings))
        return [
            {"index": place, "finish_reason": row["finish_reason"], "text": until_stop(row["response"], stops),
             "token_ids": [int(each) for each in row["token_ids"]], "log_probs": row["log_probs"]}
            for place, row in enumerate(rows)
        ]  # fmt: skip

    def body(kind: str, ids: list[int], made: list[dict[str, Any]], asked: Sampling) -> dict[str, Any]:
        """The answer as OpenAI's clients read it; the exact ids where vLLM has them."""
        tokens = sum(len(each["token_ids"]) for each in made)
        usage = {"prompt_tokens": len(ids), "completion_tokens": tokens, "total_tokens": len(ids) + tokens}
        answers = []
        for each in made:
            said = each.pop("text")
            told = {"message": each.pop("message")} if kind == "chat.completion" else {"text": said}
            log_probs, exact = each.pop("log_probs"), each.pop("token_ids")
            if asked.logprobs is not None and asked.logprobs is not False:  # 0: those of sampled tokens
                pieces = [tokenizer.decode([token]) for token in exact]
                content = [{"token": piece, "logprob": float(log_prob), "bytes": None, "top_logprobs": []}
                           for piece, log_prob in zip(pieces, log_probs, strict=True)]  # fmt: skip
                told["logprobs"] = {"content": content} if kind == "chat.completion" else {
                    "tokens": pieces, "token_logprobs": [float(each) for each in log_probs]}  # fmt: skip
            if asked.return_token_ids:
                told["token_ids"] = exact
            answers.append(each | told)
        more = {"prompt_token_ids": ids} if asked.return_token_ids else {}
        return {"id": f"ares-{secrets.token_hex(8)}", "object": kind, "created": int(time.time()), "model": name,
                "choices": answers, "usage": usage, **more}  # fmt: skip

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "created": started, "owned_by": "ares"}]}

    @app.post("/v1/chat/completions")
    async def chat(request: Request, asked: ChatRequest) -> dict[str, Any]:
        tools = asked.tools or []
        try:
            messages = [read_message(message) for message in asked.messages]
            episode = conversations.begin(messages, tools)
        except (DataError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise HTTPException(400, f"messages: {error!s:.300}") from error
        ids = [*episode.prompt_token_ids, *episode.token_ids]
        made = await choices(request, ids, asked, asked.max_completion_tokens)
        first = episode.then(made[0]["token_ids"], made[0]["log_probs"])
        first = replace(first, finish_reason=made[0]["finish_reason"], turns=episode.turns + 1)
        for each in made:
            each["message"] = write_answer(each["text"], bool(tools), call_format, secrets.token_hex(2))
            if "tool_calls" in each["message"]:
                each["finish_reason"] = "tool_calls"
        said = body("chat.completion", ids, made, asked)
        if asked.n == 1:
            conversations.add(said["id"], [*messages, read_message(said["choices"][0]["message"])], tools, first)
        return said

    @app.get("/v1/episodes")
    async def episodes() -> dict[str, Any]:
        told = conversations.episodes.items()
        data = [{"id": each, "turns": episode.turns, "continues": episode.continues} for each, episode in told]
        return {"object": "list", "data": data}

    @app.get("/v1/episodes/{answer}")
    async def whole_episode(answer: str) -> dict[str, Any]:
        if answer not in conversations.episodes:
            raise HTTPException(404, f"no answer {answer!r:.60} is remembered")
        return {"id": answer, **asdict(conversations.episodes[answer])}

    @app.post("/v1/completions")
    async def complete(request: Request, asked: TextRequest) -> dict[str, Any]:
        try:
            ids = tokenizer(asked.prompt)["input_ids"] if isinstance(asked.prompt, str) else asked.prompt
        except (TypeError, ValueError) as error:
            raise HTTPException(400, f"prompt: {error!s:.300}") from error
        return body("text_completion", ids, await choices(request, ids, asked), asked)

    @app.post("/inference/v1/generate")
    async def generate(request: Request, asked: GenerateRequest) -> dict[str, Any]:
        made = await choices(request, asked.token_ids, asked.sampling_params)
        for each in made:
            each.pop("text")
            each["log_probs"] = [float(log_prob) for log_prob in each["log_probs"]]
        return {"request_id": f"ares-{secrets.token_hex(8)}", "choices": made}

    return app
