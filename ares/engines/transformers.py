"""The reference engine: transformers' own model with a key-value cache, one forward pass per token.

Covered: any causal LM, left-padded batches, noise keyed by a token's position in its response, whichever call draws it,
one pass over a prompt that several rows share, with its images and videos, stop strings, removal of finished rows from
the batch. Not covered: speed on large models (that is what vLLM is for), models whose cache is not a DynamicCache.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from algorithms.keyed_sampling import keyed_uniform, sample_tokens
from ares.config import Config, DataConfig, ModelConfig
from ares.data import MediaReader
from ares.engines.engine import Completion, ModelEngine, Request, SamplingSettings, device_of, end_token_ids, padding_id
from ares.engines.stop_strings import StopStrings
from ares.models import VisionInputs, can_regroup, empty_model, growing_cache, regroup, return_free_memory


class TransformersEngine(ModelEngine):
    """Samples responses with transformers on one device."""

    def __init__(
        self, model: ModelConfig, device: str, end_ids: set[int], pad_id: int,
        tokenizer: PreTrainedTokenizerBase | None = None, data: DataConfig | None = None,
    ) -> None:  # fmt: skip
        """tokenizer: for requests with stop strings. data: how the images and videos of a vision-language model are
        read."""
        self.model = made = empty_model(model, device)
        if can_regroup(made.get_decoder()):
            regroup(made.get_decoder())
        self.device = torch.device(device)
        self.end_ids = torch.tensor(sorted(end_ids), device=self.device)
        self.pad_id = pad_id
        self.tokenizer = tokenizer
        self.vision = None if data is None else VisionInputs(self.model, MediaReader(model.location, data))

    @classmethod
    def create(cls, settings: Any, config: Config, tokenizer: PreTrainedTokenizerBase) -> "TransformersEngine":
        """rollout.engine=transformers."""
        end_ids = end_token_ids(config.model.location, tokenizer)
        data = config.data if config.model.family == "vision_language" else None
        return cls(config.model, device_of(config), end_ids, padding_id(tokenizer), tokenizer, data)

    @torch.no_grad()
    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        """Sample; finished responses are yielded when rows leave the batch. Prompts are left-padded to the longest."""
        assert self.version is not None, "no weights were loaded"
        batch = len(requests)
        prompts, prompt_of = self._distinct_prompts(requests)
        ids, mask = self.padded([request.prompt_token_ids for request in prompts])
        seeds, begun = torch.tensor([(request.seed, request.begun) for request in requests], device=self.device).T
        responses = _Responses(batch, settings.max_tokens, self.end_ids, self.pad_id)
        stops = None
        if any(request.stops for request in requests):
            assert self.tokenizer is not None, "stop strings are looked for in text"
            stops = StopStrings(self.tokenizer, requests)
        rows = torch.arange(batch, device=self.device)  # rows of the call that are still in the model's batch
        going = torch.ones_like(rows, dtype=torch.bool)
        inputs = self._prompt_inputs(prompts, ids, mask)
        decoding = Decoding(self.model)
        logits = decoding.read(inputs, mask, prompt_of)
        for place in range(settings.max_tokens):
            logits = logits if self.vision is None else logits + self.vision.never
            drawn, drawn_log_probs = sample_tokens(
                logits, keyed_uniform(seeds[rows], begun[rows] + place), settings.temperature, settings.top_p
            )
            going &= ~responses.add(rows, place, drawn, drawn_log_probs, going)
            if stops is not None:
                going &= ~responses.end(rows, place, stops.reached(rows, responses.tokens, place, going))
            left = int(going.sum())  # waits for the device, as does transformers' check for padding
            if not left or place + 1 == settings.max_tokens:
                break
            # Dropping rows copies the cache, so wait until a quarter of the batch is finished.
            if left <= 0.75 * len(rows):
                yield responses.completions(rows[~going])
                rows, drawn = rows[going], drawn[going]
                decoding.keep(going)
                going = torch.ones_like(rows, dtype=torch.bool)
            logits = decoding.answer(drawn)
        del decoding, logits
        return_free_memory()
        yield responses.completions(rows)

    def _prompt_inputs(self, requests: list[Request], ids: Tensor, mask: Tensor) -> dict[str, Tensor]:
        """The model's inputs for prompts [B, P] in its first pass, with position_ids [..., B, P]."""
        if self.vision is not None:
            pictures = self.vision.read([list(request.media) for request in requests])
            embedded = self.vision.embed(ids, pictures, list(range(len(ids))))
            return {"inputs_embeds": embedded, "position_ids": self.vision.padded_positions(ids, mask, pictures)}
        return {"input_ids": ids, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}

    def _distinct_prompts(self, requests: list[Request]) -> tuple[list[Request], Tensor]:
        """One request for each distinct prompt and its media, and for each request [B] the index of its prompt."""
        numbers: dict[Any, int] = {}
        distinct: list[Request] = []
        for request in requests:
            if numbers.setdefault((*request.prompt_token_ids, request.media), len(distinct)) == len(distinct):
                distinct.append(request)
        of_rows = [numbers[(*request.prompt_token_ids, request.media)] for request in requests]
        return distinct, torch.tensor(of_rows, device=self.device)


class Decoding:
    """The model's side of a call: the key-value cache, positions and mask of its unfinished rows."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.cache = growing_cache(model.config)

    def read(self, inputs: dict[str, Tensor], mask: Tensor, prompt_of: Tensor) -> Tensor:
        """Logits [B, V] of the first token of each row. inputs: prompts [P, T]; mask: [P, T]; prompt_of: [B]."""
        logits = self._logits(mask, inputs)
        self.positions = inputs["position_ids"][..., prompt_of, -1:]
        self.mask = mask[prompt_of]
        self.cache.reorder_cache(prompt_of)
        return logits[prompt_of]

    def answer(self, drawn: Tensor) -> Tensor:
        """Logits [B, V] of the token after each row's latest, drawn [B]."""
        self.positions = self.positions + 1
        self.mask = torch.nn.functional.pad(self.mask, (0, 1), value=1)
        return self._logits(self.mask, {"input_ids": drawn[:, None], "position_ids": self.positions})

    def keep(self, going: Tensor) -> None:
        """Keep only these rows (bool [B])."""
        self.positions = self.positions[..., going, :]
        self.cache.reorder_cache(going.nonzero()[:, 0])  # batch_select_indices knows no states of convolutions
        self.mask = self.mask[going]

    def _logits(self, mask: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        passed = self.model(attention_mask=mask, past_key_values=self.cache, use_cache=True, logits_to_keep=1, **inputs)
        return passed.logits[:, -1]


class _Responses:
    """The growing responses of a call."""

    def __init__(self, count: int, limit: int, end_ids: Tensor, pad_id: int) -> None:
        device = end_ids.device
        self.end_ids = end_ids
        self.tokens = torch.full((count, limit), pad_id, device=device)
        self.log_probs = torch.zeros(count, limit, device=device)
        self.lengths = torch.full((count,), limit, device=device)
        self.stopped = torch.zeros(count, dtype=torch.bool, device=device)

    def add(self, rows: Tensor, place: int, drawn: Tensor, log_probs: Tensor, going: Tensor) -> Tensor:
        """Append a token to each row [R]; returns which of those in `going` it ends: bool [R]."""
        self.tokens[rows, place], self.log_probs[rows, place] = drawn, log_probs
        return self.end(rows, place, torch.isin(drawn, self.end_ids) & going)

    def end(self, rows: Tensor, place: int, ended: Tensor) -> Tensor:
        """End the rows [R] marked in `ended` [R] with the token at `place`; returns `ended`."""
        self.lengths[rows] = torch.where(ended, place + 1, self.lengths[rows])
        self.stopped[rows] |= ended
        return ended

    def completions(self, rows: Tensor) -> list[tuple[int, Completion]]:
        """The responses of rows [R], each with its index in the call."""
        of_rows = zip(
            rows.tolist(),
            self.tokens[rows].to("cpu", torch.int32).numpy(),
            self.log_probs[rows].cpu().numpy(),
            self.lengths[rows].tolist(),
            self.stopped[rows].tolist(),
            strict=True,
        )
        return [
            (row, Completion(ids[:length], values[:length], "stop" if stop else "length"))
            for row, ids, values, length, stop in of_rows
        ]
