"""Learner and engine as actors that share the device, if Ray is installed."""

import asyncio
from pathlib import Path

import pytest

from ares.engines import Request, SamplingSettings
from ares.store import RunStore
from tests.ares.builders import PAD, config, requests, to_batch
from tests.ares.learner_builders import mean_apart, sampled
from tests.gpu.test_device import learns_on, on, shaped


@pytest.mark.slow
def test_weights_reach_the_engine_after_an_update(device: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from ares.cluster import Cluster

    cluster = Cluster(config(learns_on(device), "model.dtype=bfloat16"), RunStore(tmp_path / "run"))
    batch = cluster.store.write_file("batch.safetensors", shaped(on("cpu"), sampled()).save)
    asked = [Request(request.prompt_token_ids, seed) for seed, request in enumerate(requests(6))]

    async def apart(version: int) -> float:
        """Mean difference of engine's and learner's log-probs, in nats."""
        rows = sampled().head(len(asked)).reset_index(drop=True)
        rows["prompt_token_ids"] = [request.prompt_token_ids for request in asked]
        found = await cluster.sample(version, asked, SamplingSettings(1.0, 1.0, 8))
        rows[list(found)] = found
        batch = to_batch(rows, PAD)
        return mean_apart(await cluster.log_probs(version, batch, 1.0), batch)

    async def around_an_update() -> None:
        assert await apart(0) < 0.02
        cluster.announce_update(1, batch, None)
        await cluster.update(1)
        assert await apart(1) < 0.02

    try:
        asyncio.run(around_an_update())
    finally:
        cluster.close()
