"""Comparison of what a script wrote with what it should have written."""

import decimal


def same_output(written: str, expected: str) -> bool:
    """Whether two outputs agree, up to trailing blanks, trailing empty lines and the spelling of decimal numbers."""
    ours, theirs = ([line.rstrip() for line in text.rstrip().splitlines()] for text in (written, expected))
    return len(ours) == len(theirs) and all(a == b or _same_tokens(a, b) for a, b in zip(ours, theirs, strict=True))


def _same_tokens(ours: str, theirs: str) -> bool:
    pairs = list(zip(ours.split(), theirs.split(), strict=False))
    if len(pairs) != len(ours.split()) or len(pairs) != len(theirs.split()):
        return False
    return all(a == b or _same_number(a, b) for a, b in pairs)


def _same_number(ours: str, theirs: str) -> bool:
    try:
        return decimal.Decimal(ours) == decimal.Decimal(theirs)
    except decimal.InvalidOperation:
        return False
