"""All uses of vLLM beyond its documented interface (`LLM`, `SamplingParams`).

Each entry says what it uses, why, since which version of vLLM it works, and which test notices when a new version
breaks it. Nothing of vLLM is replaced.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from ares.config import VllmConfig


def set_environment(settings: VllmConfig) -> None:
    """Set the variables that vLLM reads when it is imported.

    What: `VLLM_ENABLE_V1_MULTIPROCESSING`, `VLLM_ALLOW_INSECURE_SERIALIZATION`, `VLLM_CPU_OMP_THREADS_BIND`.
    Why: our actor is the engine's process; weights and `_repack_tied_head` go to vLLM's own workers; each of several
    workers would want a NUMA node of its own. Tried with 0.32. Notices: tests/ares/engines/test_vllm_engine.py.
    """
    os.environ |= {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
        "VLLM_CPU_KVCACHE_SPACE": str(settings.cpu_cache_gib),
    }
    if settings.tensor_parallel > 1:
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"


def replace_weights(llm: Any, weights: Mapping[str, Tensor]) -> None:
    """Copy new weights over a model's own, in every worker.

    What: the workers' method `reload_weights`; `model_runner.get_model()` and `process_weights_after_loading` of a tied
    output head. Why: `load_weights` raises on a CPU; there the head has a prepacked copy, which an update in place
    silently leaves stale (mean difference of a log-prob: .12 nats). Tried with 0.32.
    Notices: tests/ares/engines/test_vllm_engine.py (log-probs after an update in place; what it may leave behind).
    """
    llm.collective_rpc("reload_weights", kwargs={"weights_iterator": list(weights.items())})
    llm.collective_rpc(_repack_tied_head)


def _repack_tied_head(worker: Any) -> None:
    model = worker.model_runner.get_model()
    head = getattr(getattr(model, "language_model", model), "lm_head", None)
    if head is not None and hasattr(head, "cpu_linear"):
        head.quant_method.process_weights_after_loading(head)


def forget_old_weights(llm: Any, images: bool) -> None:
    """Drop the keys and values, and the encoded images, that the old weights made. Raises RuntimeError.

    What: `llm_engine.reset_encoder_cache`. Why: an update in place leaves both caches, and `LLM` resets only the first.
    Tried with 0.32. Notices: tests/ares/engines/test_vllm_engine.py (what an update may leave behind),
    tests/ares/engines/test_vllm_vision.py (images).
    """
    if not llm.reset_prefix_cache():
        raise RuntimeError("vLLM did not reset its prefix cache, which holds keys and values of the old weights")
    if images:
        llm.llm_engine.reset_encoder_cache()


def step_through(llm: Any, asked: Sequence[tuple[dict[str, Any], Any]]) -> Iterator[list[tuple[int, Any]]]:
    """Sample prompts, each with its SamplingParams; yields (number, output) in the scheduler step that finished them.

    What: `llm_engine.add_request`, `step` and `abort_request`. Why: `LLM.generate` returns when all are done, and
    vLLM's asynchronous engine wants an event loop of its own. Tried with 0.32.
    Notices: tests/ares/engines/test_vllm_engine.py (responses come as they finish).
    """
    engine = llm.llm_engine
    waiting: set[str] = set()
    try:
        for number, (prompt, sampling) in enumerate(asked):
            engine.add_request(str(number), prompt, sampling)
            waiting.add(str(number))
        while waiting:
            finished = [output for output in engine.step() if output.finished]
            waiting -= {output.request_id for output in finished}
            if finished:
                yield [(int(output.request_id), output.outputs[0]) for output in finished]
    finally:  # an abandoned stream must not continue under the next one
        if waiting:
            engine.abort_request(list(waiting))
