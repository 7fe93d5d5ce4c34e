"""Stop strings: a response ends with the token that completes one in its decoded text.

Covered: finding them in what one call has sampled in this process, cutting a text there. Not covered: vLLM, which finds
them itself; special tokens inside of a stop string.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ares.engines.engine import Request
from ares.engines.responses import response_texts


def until_stop(text: str, stops: Sequence[str]) -> str:
    """A response before the first of its stop strings; its last token may hold more than that."""
    ends = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(ends, default=None)]


class StopStrings:
    """The stop strings of a call's requests."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, requests: Sequence[Request]) -> None:
        self._tokenizer = tokenizer
        self._stops = [request.stops for request in requests]
        # A token decodes to a byte at least; one token more, since decoders drop a leading space.
        self._window = 1 + max(len(stop.encode()) for stops in self._stops for stop in stops)

    def reached(self, rows: Tensor, tokens: Tensor, place: int, going: Tensor) -> Tensor:
        """Which of the rows [R] that are going reached a stop string with the token at `place`: bool [R].

        tokens: of all rows of the call [B, places].
        """
        latest = tokens[rows, max(0, place + 1 - self._window) : place + 1].tolist()
        ended = torch.zeros_like(going)
        for index, row in enumerate(rows.tolist()):
            if going[index] and (stops := self._stops[row]):
                (text,) = response_texts(self._tokenizer, [latest[index]])
                ended[index] = any(stop in text for stop in stops)
        return ended
