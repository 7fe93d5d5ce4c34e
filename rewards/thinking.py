"""A response without a model's thinking: answers and programs are looked for in what is left."""

import re

TAGS = ("think", "thinking", "thought", "reasoning", "seed:think")
"""Tags between which models think."""


def without_thinking(response: str) -> str:
    """The response without what stands between the tags.

    The opening tag may be part of the prompt; where the closing one is missing, the thinking was cut off.
    """
    for tag in TAGS:
        if f"{tag}>" in response:
            outside = re.sub(f"<{tag}>.*?</{tag}>", "", response, flags=re.DOTALL)
            response = outside.rpartition(f"</{tag}>")[2].partition(f"<{tag}>")[0]
    return response
