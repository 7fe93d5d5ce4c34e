"""A response without a model's thinking: answers and programs are looked for in what is left."""

TAGS = ("think", "thinking", "thought", "reasoning", "seed:think")
"""Tags between which models think."""


def with_opening_tag(prompt: str, response: str) -> str:
    """The response after the tag with which its prompt ends, if a template writes one: else what was cut off amid
    thinking would pass for an answer."""
    ending = prompt.rstrip()
    return next((f"<{tag}>{response}" for tag in TAGS if ending.endswith(f"<{tag}>")), response)


def without_thinking(response: str) -> str:
    """The response without what stands between the tags.

    The opening tag may be part of the prompt (`with_opening_tag`); where the closing one is missing, the thinking was
    cut off.
    """
    for tag in TAGS:
        *closed, last = response.split(f"</{tag}>")
        outside = ""
        for piece in closed:
            before, opened, _ = piece.partition(f"<{tag}>")
            if opened:
                outside += before
            else:  # what it closes began in the prompt
                outside = ""
        response = outside + last.partition(f"<{tag}>")[0]
    return response
