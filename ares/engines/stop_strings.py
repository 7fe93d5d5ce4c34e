"""Stop strings: a response ends with the token that completes one in its decoded text.

Covered: finding them in what an engine of this process has sampled so far, cutting a text there. Not covered: vLLM,
which finds them itself.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ares.engines.engine import Request
from ares.engines.responses import response_texts, silent_tokens


def until_stop(text: str, stops: Sequence[str]) -> str:
    """A response before the first of its stop strings; its last token may hold more than that."""
    ends = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(ends, default=None)]


class StopStrings:
    """The stop strings of a call's requests."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, requests: Sequence[Request]) -> None:
        self._tokenizer = tokenizer
        self._stops = [request.stops for request in requests]
        self._begun = [each.prompt_token_ids[len(each.prompt_token_ids) - each.begun :] for each in requests]
        # A token decodes to a byte at least; one token more, since decoders drop a leading space.
        self._window = 1 + max(len(stop.encode()) for stops in self._stops for stop in stops)
        self._silent, _ = silent_tokens(tokenizer)

    def reached(self, rows: Tensor, tokens: Tensor, place: int, going: Tensor) -> Tensor:
        """Which of the rows [R] that are going reached a stop string with the token at `place`: bool [R].

        tokens: of all rows of the call [B, places].
        """
        looked_at = going.nonzero()[:, 0].tolist()
        of_call = rows[going].tolist()
        latest = tokens[rows[going], max(0, place + 1 - self._window) : place + 1].tolist()
        before = [self._begun[row][-self._window :] for row in of_call]
        ends = [[*begun, *ids][-self._window :] for begun, ids in zip(before, latest, strict=True)]
        near = [
            self._has_stop(row, text) or not self._silent.isdisjoint(ids)
            for row, text, ids in zip(of_call, response_texts(self._tokenizer, ends), ends, strict=True)
        ]
        ended = torch.zeros_like(going)
        for index, row, is_near in zip(looked_at, of_call, near, strict=True):
            if is_near:  # the whole text decides
                (text,) = response_texts(self._tokenizer, [[*self._begun[row], *tokens[row, : place + 1].tolist()]])
                ended[index] = self._has_stop(row, text)
        return ended

    def _has_stop(self, row: int, text: str) -> bool:
        return any(stop in text for stop in self._stops[row])
