"""Other people's text on a terminal: a response or a program's output must not move the cursor or change a title."""

CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Text with its control characters but newlines and tabs written as `\\x1b` and the like."""
    return text.translate(CONTROL)
