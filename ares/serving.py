"""`ares serve`: a policy behind OpenAI's protocol, on loopback, with token ids and log-probs.

    POST /v1/chat/completions      messages → choices; with logprobs and return_token_ids what was sampled, exactly
    POST /v1/completions           prompt: text or token ids; with prompt_logprobs=0 it is measured, and nothing sampled
    POST /inference/v1/generate    token_ids → choices of token ids and log-probs; nothing is rendered or parsed
    GET  /v1/episodes/ID           all turns of a conversation up to the answer ID, as one row of tokens
    GET  /v1/models

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
from itertools import chain
from typing import Annotated, Any, Literal

import pandas as pd
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, model_validator
from starlette.middleware.base import RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from transformers import PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from ares.conversations import Conversations
from ares.data import DataError
from ares.engines import Request as Asked
from ares.engines import SamplingSettings, opened_texts, until_stop
from ares.environments import read_message, write_answer

Sample = Callable[[list[Asked], SamplingSettings], Awaitable[pd.DataFrame]]
"""Requests → a row each: token_ids, log_probs, finish_reason, response."""
Measure = Callable[[list[list[int]]], Awaitable[list[list[float]]]]
"""Sequences of token ids → for each the log-probs of all tokens but the first, at temperature 1."""
Tokens = Annotated[int, Field(ge=1)]
Stop = Annotated[str, Field(min_length=1, max_length=200)]
LOOPBACK = ["127.0.0.1", "localhost", "[::1]"]


NEUTRAL: dict[str, list[Any]] = {
    "stream": [False], "response_format": [{"type": "text"}], "top_logprobs": [0], "echo": [False], "suffix": [""],
    "tool_choice": ["auto"], "logit_bias": [{}], "top_k": [-1, 0], "min_p": [0], "presence_penalty": [0],
    "frequency_penalty": [0], "repetition_penalty": [1], "min_tokens": [0], "stop_token_ids": [[]],
    "ignore_eos": [False], "chat_template_kwargs": [{}], "best_of": [1],
}  # fmt: skip
"""Fields of OpenAI's and vLLM's that would change an answer, with the values at which they do not."""


@dataclass(frozen=True)
class Limits:
    """What the engine can be asked for."""

    response: int
    """Tokens, where a request says nothing."""
    sequence: int
    """Tokens of prompt and response."""
    vocabulary: int
    """Token ids that the model has."""
    batch: int = 256
    """Responses that are sampled together."""
    multiple: int = 1
    """A response's tokens are a multiple of it: the block of a masked-diffusion model."""
    temperatures: tuple[float, float] = (0.0, 100.0)
    """0 is possible too."""
    has_top_p: bool = True
    """Whether log-probs are those before top-p."""


class Sampling(BaseModel):
    """What the requests have in common. Other fields are ignored, as other servers do, unless they are NEUTRAL's."""

    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: Tokens | None = None
    n: int = Field(1, ge=1, le=128)
    seed: int | None = None
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = None
    logprobs: bool | int | None = None
    return_token_ids: bool = False

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_is_not_done(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = {name: value for name, value in given.items() if value is not None}
        for name, allowed in NEUTRAL.items():
            if name in given and given[name] not in allowed:
                raise ValueError(f"{name}={given[name]!r:.60}: not done here")
        return given


class ChatRequest(Sampling):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_completion_tokens: Tokens | None = None
    tools: list[dict[str, Any]] | None = None


class TextRequest(Sampling):
    """POST /v1/completions."""

    prompt: str | list[int] | list[list[int]]
    prompt_logprobs: Literal[0] | None = None
    """0, as in vLLM: the log-prob of each token of the prompt, or of several prompts."""


class GenerateRequest(BaseModel):
    """POST /inference/v1/generate."""

    token_ids: list[int] = Field(min_length=1)
    stream: Literal[False] | None = None
    sampling_params: Sampling = Sampling()


@dataclass
class Batcher:
    """Collects requests while the engine is busy, and samples together what is sampled alike."""

    sample: Sample
    most: int
    """Responses of a call."""
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
                for start in range(0, len(group), self.most):
                    await self._sample(group[start : start + self.most], settings)

    async def _sample(self, group: list[tuple[Asked, asyncio.Future[pd.Series]]], settings: SamplingSettings) -> None:
        try:
            sampled = await self.sample([asked for asked, _ in group], settings)
        except Exception as error:  # noqa: BLE001 (its client is told)
            if len(group) > 1:  # one that fails must not fail the others
                for each in group:
                    await self._sample([each], settings)
            elif not group[0][1].done():
                group[0][1].set_exception(error)
            return
        for place, (_, future) in enumerate(group):
            if not future.done():
                future.set_result(sampled.iloc[place])


def policy_app(
    sample: Sample, tokenizer: PreTrainedTokenizerBase, name: str, limits: Limits,
    template: dict[str, Any], key: str | None, call_format: str = "hermes", measure: Measure | None = None,
) -> FastAPI:  # fmt: skip
    """The application. name: of the model. template: data.chat_template_kwargs. key: what clients must send as their
    API key, if anything. call_format: how responses call tools (environment.call_format). measure: for prompt_logprobs.
    """
    batcher, started = Batcher(sample, limits.batch), int(time.time())
    conversations = Conversations(tokenizer, template, call_format, limits.sequence)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    if key is None:  # then it is for this machine: a page of another name must not reach it through a browser
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=LOOPBACK)

    @app.middleware("http")
    async def check_key(request: Request, answer: RequestResponseEndpoint) -> Response:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key is not None and not secrets.compare_digest(given.encode(), key.encode()):
            return JSONResponse({"detail": "wrong API key"}, 401)
        return await answer(request)

    def check(ids: list[int]) -> None:
        if not ids or not all(0 <= each < limits.vocabulary for each in ids):
            raise HTTPException(400, f"token ids are from 0 to {limits.vocabulary - 1}, at least one")

    async def measured(sequences: list[list[int]]) -> list[dict[str, Any]]:
        """What `choices` gives of samples, of sequences that are only measured: the log-probs as vLLM writes them."""
        for ids in sequences:
            check(ids)
            if not 2 <= len(ids) <= limits.sequence:
                raise HTTPException(400, f"prompt_logprobs: of 2 to {limits.sequence} tokens, not of {len(ids)}")
        if measure is None:
            raise HTTPException(400, "prompt_logprobs: only causal models have them here")
        nothing = {"text": "", "finish_reason": "length", "token_ids": [], "log_probs": []}
        made = []
        for place, (ids, values) in enumerate(zip(sequences, await measure(sequences), strict=True)):
            entries = [{str(token): {"logprob": value}} for token, value in zip(ids[1:], values, strict=True)]
            made.append({"index": place, "prompt_logprobs": [None, *entries], **nothing})
        return made

    async def choices(ids: list[int], asked: Sampling, most: int | None = None) -> list[dict[str, Any]]:
        check(ids)
        least, hottest = limits.temperatures
        if asked.temperature and not least <= asked.temperature <= hottest:
            raise HTTPException(
                400, f"temperature={asked.temperature:g}: the engine samples at 0, or {least:g} to {hottest:g}"
            )
        if asked.top_p < 1 and not limits.has_top_p:
            raise HTTPException(400, f"top_p={asked.top_p:g}: the engine's log-probs would be those after it")
        seed = secrets.randbits(63) if asked.seed is None else asked.seed
        stops = (asked.stop,) if isinstance(asked.stop, str) else tuple(asked.stop or ())
        room = limits.sequence - len(ids)
        limit = most or asked.max_tokens or min(limits.response, max(room - room % limits.multiple, limits.multiple))
        if limit % limits.multiple:
            raise HTTPException(400, f"max_tokens={limit}: the model writes blocks of {limits.multiple} tokens")
        if limit > room:
            told = f"{len(ids)} tokens of the prompt and {limit} of the response are more than {limits.sequence}"
            raise HTTPException(400, f"{told}, data.max_prompt_length and rollout.max_response_length together")
        settings = SamplingSettings(asked.temperature, asked.top_p, limit)
        requests = [Asked(ids, derive_seed(seed, "serve", place), stops=stops) for place in range(asked.n)]
        rows = await batcher.answer(requests, settings)
        return [
            {"index": place, "finish_reason": row["finish_reason"], "text": until_stop(row["response"], stops),
             "token_ids": list(map(int, row["token_ids"])), "log_probs": list(map(float, row["log_probs"]))}
            for place, row in enumerate(rows)
        ]  # fmt: skip

    def body(kind: str, ids: list[int], made: list[dict[str, Any]], asked: Sampling) -> dict[str, Any]:
        """The answer as OpenAI's clients read it; the exact ids where vLLM has them."""
        tokens = sum(len(each["token_ids"]) for each in made)
        usage = {"prompt_tokens": len(ids), "completion_tokens": tokens, "total_tokens": len(ids) + tokens}
        for each in made:
            exact, log_probs = each["token_ids"], each.pop("log_probs")
            if asked.logprobs is not None and asked.logprobs is not False:  # 0: those of sampled tokens
                pieces = [tokenizer.decode([token]) for token in exact]
                content = [{"token": piece, "logprob": log_prob, "bytes": None, "top_logprobs": []}
                           for piece, log_prob in zip(pieces, log_probs, strict=True)]  # fmt: skip
                is_chat = kind == "chat.completion"
                each["logprobs"] = {"content": content} if is_chat else {"tokens": pieces, "token_logprobs": log_probs}
            if not asked.return_token_ids:
                del each["token_ids"]
        more = {"prompt_token_ids": ids} if asked.return_token_ids else {}
        return {"id": f"ares-{secrets.token_hex(8)}", "object": kind, "created": int(time.time()), "model": name,
                "choices": made, "usage": usage, **more}  # fmt: skip

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": name, "object": "model", "created": started, "owned_by": "ares"}]}

    @app.post("/v1/chat/completions")
    async def chat(asked: ChatRequest) -> dict[str, Any]:
        tools = asked.tools or []
        try:
            messages = [read_message(message) for message in asked.messages]
            episode = conversations.begin(messages, tools)
        except (DataError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise HTTPException(400, f"messages: {error!s:.300}") from error
        ids = [*episode.prompt_token_ids, *episode.token_ids]
        made = await choices(ids, asked, asked.max_completion_tokens)
        first = episode.then(made[0]["token_ids"], made[0]["log_probs"])
        first = replace(first, finish_reason=made[0]["finish_reason"], turns=episode.turns + 1)
        texts = opened_texts(tokenizer, [ids] * len(made), [each.pop("text") for each in made])
        for each, text in zip(made, texts, strict=True):
            each["message"] = write_answer(text, bool(tools), call_format, secrets.token_hex(2))
            if "tool_calls" in each["message"]:
                each["finish_reason"] = "tool_calls"
        said = body("chat.completion", ids, made, asked)
        if asked.n == 1:
            conversations.add(said["id"], [*messages, read_message(said["choices"][0]["message"])], tools, first)
        return said

    @app.get("/v1/episodes/{answer}")
    async def whole_episode(answer: str) -> dict[str, Any]:
        if answer not in conversations.episodes:
            raise HTTPException(404, f"no answer {answer!r:.60} is remembered")
        return {"id": answer, **asdict(conversations.episodes[answer])}

    @app.post("/v1/completions")
    async def complete(asked: TextRequest) -> dict[str, Any]:
        try:
            given: Any = tokenizer(asked.prompt)["input_ids"] if isinstance(asked.prompt, str) else asked.prompt
        except (TypeError, ValueError) as error:
            raise HTTPException(400, f"prompt: {error!s:.300}") from error
        sequences: list[list[int]] = given if given and isinstance(given[0], list) else [given]
        if asked.prompt_logprobs is not None:
            return body("text_completion", [*chain(*sequences)], await measured(sequences), asked)
        if len(sequences) > 1:
            raise HTTPException(400, "prompt: several at once only with prompt_logprobs")
        return body("text_completion", sequences[0], await choices(sequences[0], asked), asked)

    @app.post("/inference/v1/generate")
    async def generate(asked: GenerateRequest) -> dict[str, Any]:
        made = await choices(asked.token_ids, asked.sampling_params)
        for each in made:
            del each["text"]
        return {"request_id": f"ares-{secrets.token_hex(8)}", "choices": made}

    return app
