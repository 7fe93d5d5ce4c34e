"""Text that is shown: of others, without what moves the cursor or changes a title; addresses, without passwords."""

import re

CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Text with its control characters but newlines and tabs written as `\\x1b` and the like."""
    return text.translate(CONTROL)


def without_credentials(text: str) -> str:
    """Text in which no address has `user:password@`."""
    return re.sub(r"(?<=://)[^/\s]*@", "", text)
