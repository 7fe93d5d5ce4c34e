from collections.abc import Iterator

from ares.engines import Completion, Request, SamplingSettings, TransformersEngine


class ShortestFirst(TransformersEngine):
    """The reference engine, given the shortest prompts first."""

    families = ("causal",)

    def stream(self, requests: list[Request], settings: SamplingSettings) -> Iterator[list[tuple[int, Completion]]]:
        order = sorted(range(len(requests)), key=lambda index: len(requests[index].prompt_token_ids))
        for some in super().stream([requests[index] for index in order], settings):
            yield [(order[place], completion) for place, completion in some]
