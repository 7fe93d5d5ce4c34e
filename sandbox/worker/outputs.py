"""Compares what a script wrote with what it should have written.

By lines: blanks at the end of a line and empty lines at the end do not count, everything else does. By tokens: only
what is between blanks counts. Either way a token is compared as text, unless the expected one is a number with a
decimal point and one of the two has three decimals or more: such a number was computed, not formatted, and may differ
by a millionth. (1.10 is not 1.1: two decimals are a price or a version.) By numbers: like tokens, but a number equals
an answer with a point or an exponent if it differs by no more, as is usual in contests. A whole answer must be met
exactly.
"""

import decimal
import re

_BLANKS = " \t\r"
_NUMBER = re.compile(r"[+-]?[0-9]{1,400}(?:\.([0-9]{0,400}))?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TOLERANCE = decimal.Decimal("1e-6")  # absolute, or relative to an answer above one
_COMPUTED = 3  # decimals


def same_output(written: str, expected: str, compare: str = "lines") -> bool:
    """Whether two outputs agree; `compare`: lines, tokens or numbers."""
    ours, theirs = (_pieces(text, compare) for text in (written, expected))
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(a == b or _same_number(a, b, compare == "numbers") for a, b in pairs)


def _pieces(text: str, compare: str) -> list[str]:
    """Tokens and, if outputs are compared by lines, what is between them, which must be the same."""
    if compare == "lines":
        lines = text.rstrip(_BLANKS + "\n").split("\n")
        return re.split(f"([{_BLANKS}\n]+)", "\n".join(line.rstrip(_BLANKS) for line in lines))
    return [token for token in re.split(f"[{_BLANKS}\n]+", text) if token]


def _same_number(ours: str, theirs: str, all_numbers: bool) -> bool:
    written, answer = _NUMBER.fullmatch(ours), _NUMBER.fullmatch(theirs)
    if written is None or answer is None:
        return False
    value, answered = decimal.Decimal(ours), decimal.Decimal(theirs)  # which no number here overflows
    if _WHOLE.fullmatch(theirs):
        return all_numbers and value == answered
    if not all_numbers and ("." not in theirs or max(len(found[1] or "") for found in (written, answer)) < _COMPUTED):
        return False
    return abs(value - answered) <= _TOLERANCE * max(decimal.Decimal(1), min(abs(value), abs(answered)))
