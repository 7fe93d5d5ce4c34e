"""What a response says after a model's thinking, where answers and programs are looked for."""

TAGS = ("think", "thinking", "thought", "reasoning", "seed:think")
"""Tags between which models think; the opening one may be part of the prompt."""


def after_thinking(response: str) -> str:
    """The response without its thinking; "" where the thinking is cut off."""
    for tag in TAGS:
        _, closed, rest = response.rpartition(f"</{tag}>")
        if closed:
            return rest
        if f"<{tag}>" in response:
            return ""
    return response
