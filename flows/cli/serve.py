"""`ares serve`: a run's policy, or a model, behind OpenAI's protocol."""

import asyncio
import socket
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ares.errors import UserError
from flows.cli.command import Overrides, console
from flows.cli.completion import profile_names, run_names

if TYPE_CHECKING:
    from ares.config import Config
    from ares.serving import Limits
    from ares.workers import Workers

LOOPBACK = ("127.0.0.1", "localhost")


def serve(
    target: Annotated[str, typer.Argument(help="Name of a run, or a model directory.", autocompletion=run_names)],
    overrides: Overrides = None,
    step: Annotated[int | None, typer.Option(min=0, help="Of a run: the weights after this step.")] = None,
    profile: Annotated[
        str, typer.Option(help="Settings for a model; a run has its own.", autocompletion=profile_names)
    ] = "base",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Another needs a key.")] = "127.0.0.1",
    key: Annotated[
        str | None, typer.Option(envvar="ARES_SERVE_KEY", help="What clients send as their API key.")
    ] = None,
) -> None:
    """/v1/chat/completions, /v1/completions and /inference/v1/generate, with token ids and log-probs."""
    if host not in LOOPBACK and not key:
        raise UserError(f"--host {host}: whoever reaches it could use the model; give it a --key")
    asyncio.run(_serve(target, overrides or [], step, profile, host, port, key))


async def _serve(
    target: str, overrides: list[str], step: int | None, profile: str, host: str, port: int, key: str | None
) -> None:
    import uvicorn

    from ares.data import load_tokenizer
    from ares.engines import Request, SamplingSettings, end_token_ids
    from ares.evaluation import EvaluationRequest, policy_of
    from ares.models import check_vocabulary, checked_model
    from ares.serving import policy_app
    from ares.store import read_config
    from ares.workers import PlainWorkers, check_engine, check_weights

    config, store, version, _ = policy_of(
        EvaluationRequest(target=target, step=step, profile=profile, overrides=overrides)
    )
    is_run = store.exists()
    check_engine(config)
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    ends = end_token_ids(config.model.location, tokenizer)
    model = checked_model(config)
    check_vocabulary(model, tokenizer, ends, [], config.model.path)
    if is_run:
        check_weights(store, version)
    try:
        listening = socket.create_server((host, port))
    except OSError as error:
        raise UserError(f"--host {host} --port {port}: {error.strerror}") from error
    workers = PlainWorkers(_alone(read_config(store) if is_run else config), store, _alone(config))
    try:
        sample = partial(workers.sample, version)
        limits = _limits(config, model.get_input_embeddings().num_embeddings)
        # Loads the model, or says what is wrong.
        await sample([Request([min(ends)], 0)], SamplingSettings(1.0, 1.0, limits.multiple))
        name = f"{target}-step{version}" if is_run else target
        call_format = config.environment.call_format if config.environment else "hermes"
        measure = partial(_measure, workers, version) if config.model.family == "causal" else None
        kwargs = config.data.chat_template_kwargs
        app = policy_app(sample, tokenizer, name, limits, kwargs, key or None, call_format, measure)
        address = f"http://{host}:{listening.getsockname()[1]}/v1"
        console.print(f"{name} at {address} (Ctrl-C ends it)")
        console.file.flush()  # whoever started it may wait for this line
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listening])
    finally:
        workers.close()
        listening.close()


async def _measure(workers: "Workers", version: int, sequences: list[list[int]]) -> list[list[float]]:
    """The log-probs that the policy gives all tokens but the first of sequences, at temperature 1."""
    from ares.step import sequence_batch

    found = await workers.log_probs(version, sequence_batch(sequences), 1.0)
    return [values[: len(ids) - 1].tolist() for values, ids in zip(found, sequences, strict=True)]


def _limits(config: "Config", vocabulary: int) -> "Limits":
    """What the engine of the settings can be asked for."""
    from ares.config import VLLM_TEMPERATURES
    from ares.serving import Limits

    rollout = config.rollout
    multiple = (rollout.diffusion.block or 1) if config.model.family == "masked_diffusion" else 1
    batch = rollout.shard_prompts * rollout.n
    limits = Limits(rollout.max_response_length, config.longest_sequence, vocabulary, batch, multiple)
    if rollout.engine != "vllm":
        return limits
    return replace(limits, temperatures=VLLM_TEMPERATURES, has_top_p=False)


def _alone(config: "Config") -> "Config":
    """The settings for one learner and one engine, in this process: they change only rounding."""
    learner = config.learner.model_copy(update={"ranks": 1, "sharded": False})
    return config.model_copy(update={"learner": learner, "rollout": config.rollout.model_copy(update={"engines": 1})})
