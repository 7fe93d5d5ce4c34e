r"""Grading of mathematical answers: the answer that a response gives, against the ground truth.

Covered: where the answer stands in a response (`\boxed{…}`, the last line, `####`, a tag, a regular expression), after
the thinking; what counts as a ground truth. Not covered: when two answers are the same (rewards/answers.py).
"""

import json
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rewards.answers import same_answer
from rewards.thinking import without_thinking

BOXED = "boxed"
MOST_CHARACTERS = 4096
"""Longer answers are derivations, and equal no ground truth."""
MOST_WORDS = 25
"""A ground truth of more words is a proof or a solution."""
PLAIN_NUMBER = re.compile(r"[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})")
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BLANK = r"(?:[\s$.]|\\(?:[,;! ]|q?quad))*"
_BETWEEN_BOXES = re.compile(
    rf"{_BLANK}(?:[,;]{_BLANK})?(?:(?:\\text\s*\{{\s*)?(?:and|or)(?:\s*\}})?|[,;]){_BLANK}"
    rf"|(?:(?!\n\s*\n){_BLANK[:-1]})*"
)
"""A comma, `and`, `or`, or nothing but blanks, in one paragraph: another paragraph is another step."""
_AFTER_STEPS = re.compile(r"####\s*(\S[^\n#]*?)\s*\Z")
"""The end of a GSM8K solution, with its answer."""
_BEFORE_ANSWER = re.compile(r"^.*?\b(?:final\s+)?answer(?:\s+is)?\s*\W*?[:=]\s*\**", re.IGNORECASE)
_BOLD = re.compile(r"^(?:[\s*`]|__){1,9}|(?<!\^)(?:[\s*`]|__){1,9}(?=\.?\Z)")
"""Marks of Markdown around an answer, which may begin before the words `Answer:`."""
_ASKS_HASH = re.compile(
    r"\b(?:after|before|follow\w*|with|by|form\w*|mark\w*|symbols?|us(?:e|ing)|write|put|line)\b[^\n#]{0,40}"
    r"(?<!#)####(?![#.])|^####[ \t]+(?:[<\[{]|\$[a-z]|\$?-?[\d,./]+[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""#### where it is asked for or shown with an answer; elsewhere it is a heading, or part of a picture."""
_ASKS_LINE = re.compile(r"\b(?:last|own|new|final|separate|single) line\b", re.IGNORECASE)
_ASKS_BOX = re.compile(r"\b(?:in|within|inside|into|using|with|as)\b[^.\n]{0,40}\\boxed", re.IGNORECASE)
_NO_TRUTH = re.compile(r"proofs?|not ?found|see (the )?solution|unknown|n/a|null|error", re.IGNORECASE)
"""What sets write where a problem has no answer (NuminaMath-1.5: proof, notfound)."""


def last_boxed(text: str) -> str | None:
    r"""Content of the last `\boxed{…}`, by matching braces; None if there is none or it is not closed.

    Boxes that follow one another are one list: \boxed{3}, \boxed{4} is 3, 4.
    """
    boxes: list[tuple[int, int, str]] = []
    for found in _BOX.finditer(text):
        if boxes and found.start() < boxes[-1][1]:
            continue  # a box in a box
        content = _braced(text, found.end())
        if content is None:
            return None
        boxes.append((found.start(), found.end() + len(content) + 1, content))
    if not boxes:
        return None
    together = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        if not _BETWEEN_BOXES.fullmatch(text[box[1] : together[0][0]]):
            break
        together.insert(0, box)
    return ", ".join(dict.fromkeys(content for *_, content in together))


def _braced(text: str, start: int) -> str | None:
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text[start:], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            return text[start : start + brace.start()]
    return None


def find_answer(response: str, where: str = BOXED) -> str | None:
    """The answer that a response gives; None if it gives none.

    where: `boxed`; `hash` (after the last ####); `last_line` (without `Answer:`); `tag NAME` (in <NAME>…</NAME>); or a
    regular expression, whose last match's first group (or whole) is the answer.
    """
    text = without_thinking(response)
    if where == BOXED:
        return last_boxed(text)
    if where == "hash":
        answer = text.rpartition("####")[2].strip().partition("\n")[0] if "####" in text else None
        return answer and _BOLD.sub("", answer.strip())
    if where == "last_line":
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        answer = _BEFORE_ANSWER.sub("", lines[-1]) if lines else None
    else:
        name = where.removeprefix("tag ").strip()
        pattern = rf"<{name}>((?:(?!<{name}>).)*?)</{name}>" if where.startswith("tag ") else where
        found = list(re.finditer(pattern, text, re.DOTALL))
        answer = found[-1].group(1 if found[-1].re.groups else 0) if found else None
    boxed = None if answer is None else last_boxed(answer)
    return boxed or (answer and _BOLD.sub("", answer.strip()))


def asked_format(prompt: str) -> str | None:
    r"""Where a prompt asks for the answer, as `find_answer` has it; None where it does not say."""
    asks_line = re.search(r"\banswer\s*:", prompt, re.IGNORECASE) and _ASKS_LINE.search(prompt)
    if "\\boxed" in prompt and (not asks_line or _ASKS_BOX.search(prompt)):  # a problem may show a box of its own
        return BOXED
    if _ASKS_HASH.search(prompt):
        return "hash"
    if tags := re.findall(r"<(answer|solution|result)>", prompt):
        return f"tag {tags[-1]}"
    return "last_line" if asks_line else None


def grade_answers(
    responses: Sequence[str], ground_truths: Sequence[Any], where: str | Sequence[str] = BOXED, computed: bool = False
) -> list[float]:
    r"""1.0 if a response's answer equals the ground truth, 0.0 if it does not or there is none.

    Ground truths are text (LaTeX, with or without \boxed{}; a GSM8K solution with its answer after ####) or numbers
    (`answer_text`). where: as `find_answer` has it, for all responses or for each. computed: a number has to be
    written out where the truth is one: 12 and not 3*4, which may be the question. Raises ValueError if the lists differ
    in length or a ground truth is empty.
    """
    if len(responses) != len(ground_truths):
        raise ValueError(f"{len(responses)} responses but {len(ground_truths)} ground truths")
    places = [where] * len(responses) if isinstance(where, str) else where
    return [
        _grade(find_answer(response, place), _truth(ground_truth, row), computed)
        for row, (response, ground_truth, place) in enumerate(zip(responses, ground_truths, places, strict=True))
    ]


def _grade(answer: str | None, truth: str, computed: bool) -> float:
    answer = "" if answer is None else answer.strip()
    if not answer or len(answer) > MOST_CHARACTERS:
        return 0.0
    one, other = answer.strip("$"), truth.strip("$")
    is_number = PLAIN_NUMBER.fullmatch(other)
    if is_number and PLAIN_NUMBER.fullmatch(one):
        return float(Decimal(one) == Decimal(other))
    if is_number and computed and re.search(r"\d\s*([-+*/^×÷!]|\\(cdot|times|div|frac))|\\(sqrt|frac|binom)", one):
        return 0.0
    return float(same_answer(answer, truth))


def answer_text(answer: Any) -> str:
    """A row's answer as text: numbers in digits (never 1e-05), a list of one as its element, other lists and objects as
    JSON."""
    if isinstance(answer, list) and len(answer) == 1:
        return answer_text(answer[0])
    if isinstance(answer, float | Decimal) and math.isfinite(answer):
        return format(Decimal(str(answer)), "f")
    return json.dumps(answer, default=str) if isinstance(answer, list | dict) else str(answer)


def why_ungradable(ground_truth: Any) -> str:
    """Why no answer can equal a ground truth, as where a set has only a proof; "" if one can."""
    text = _stated(ground_truth).strip().strip("$.").strip()
    if not text:
        return "the answer is empty"
    if _NO_TRUTH.fullmatch(text):
        return f"the answer is {text!r}, which is none"
    if text[0] in "{[" and not isinstance(ground_truth, list | dict):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, str | dict) for each in value)):
            return f"the answer is JSON text: {text!r:.60}"
    if len(text) > MOST_CHARACTERS or len(re.findall(r"[^\W\d_]{2,}", re.sub(r"\\[a-zA-Z]+", "", text))) > MOST_WORDS:
        return f"the answer is a text of many words, such as a proof: {text!r:.60}"
    return ""


def _stated(ground_truth: Any) -> str:
    """The answer in a ground truth: what follows #### or stands in a box, else all of it."""
    text = "" if ground_truth is None else answer_text(ground_truth)
    marked = _AFTER_STEPS.search(text)
    boxed = last_boxed(text) if marked is None else marked[1]
    return text if boxed is None else boxed


def _truth(ground_truth: Any, row: int) -> str:
    text = _stated(ground_truth).strip()
    if not text:
        raise ValueError(f"row {row}: the ground truth is empty")
    return text
