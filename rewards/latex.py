r"""Mathematical text with one spelling of everything, and its parts.

Covered: characters for commands (√ for \sqrt), commands that only change the look, \text, dollars, separators of
thousands, repeating decimals, brackets and separators outside them. Words of \text{…} are kept in quotes, so that they
are no product of letters. Not covered: what the parts mean (rewards/answers.py).
"""

import functools
import re

LETTER = r"[^\W\d_]"
END = r"(?![a-zA-Z])"
"""The end of a command's name."""
CHARACTERS = {
    "−": "-", "–": "-", "—": "-", "＋": "+", "－": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": r"\div ",
    "±": r"\pm ", "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "＝": "=",
    "∈": r"\in ", "∪": r"\cup ", "∅": r"\emptyset ", "∞": r"\infty ", "ℝ": r"\mathbb{R}", "√": r"\sqrt ", "²": "^2",
    "³": "^3", "°": r"^\circ ", "½": r"\frac12 ", "¼": r"\frac14 ", "¾": r"\frac34 ", "⅓": r"\frac13 ",
    "⅔": r"\frac23 ", "π": r"\pi ", "θ": r"\theta ", "α": r"\alpha ", "β": r"\beta ", "λ": r"\lambda ",
    "∠": r"\angle ", "△": r"\triangle ", "…": r"\ldots ", "（": "(", "）": ")", "【": "[", "】": "]", "，": ",",
    "、": ",", "；": ";", "：": ":", "。": ".", "％": "%", "￥": "¥",
}  # fmt: skip
SIDE = r"(?:[^{}]|\{[^{}]*\})*"
"""Text in which braces are closed, and not nested."""
SPELLINGS = {
    # the end of a row: 1 \\[4pt] 2
    r"\\\\(\[[\d.]+\s*[a-z]{2}\])?\s*": r"\\\\",
    # the same command
    rf"\\(dfrac|tfrac|cfrac){END}": r"\\frac", rf"\\(leq|leqslant){END}|<=": r"\\le ", r"\*\*": "^",
    rf"\\(geq|geqslant){END}|>=": r"\\ge ", rf"\\neq{END}|\\not\s*=|!=": r"\\ne ", rf"\\lt{END}": "<",
    rf"\\gt{END}": ">", rf"\\varnothing{END}": r"\\emptyset ", rf"\\(dots|cdots){END}": r"\\ldots ",
    rf"\\lbrace{END}": r"\\{", rf"\\rbrace{END}": r"\\}", rf"\\langle{END}": "(", rf"\\rangle{END}": ")",
    rf"\\(degree|deg){END}|\^\{{?\\circ\}}?": r"^\\circ ", r"\\\$": "$", r"\\%": "%",
    r"\\mathbb\s*\{?R\}?": r"(-\\infty,\\infty)",
    rf"\{{({SIDE})\\choose{END}({SIDE})\}}|^({SIDE})\\choose{END}({SIDE})$": r"\\binom{\1\3}{\2\4}",
    # only the look
    rf"\\(left|right){END}\.?": "", rf"\\([bB]ig[lr]?|displaystyle|textstyle|limits){END}": "",
    r"(?<!\\)\\[()\[\]]": "",
    r"\\(color|textcolor)\{\w+\}": "", r"\\(underline|boxed|fbox)(?=\s*\{)": "",
    rf"(?<!\\)\\[,;:!> ]|\\(quad|qquad){END}|~": " ",
    # {x | x>1} and {x \in R | x>1} are x>1
    rf"^\\\{{\s*[a-zA-Z]\s*(?:\\in\s*\(-\\infty,\\infty\)\s*)?(?:\||:|\\mid{END})\s*(\S.*)\\\}}$": r"\1",
}  # fmt: skip
"""Patterns and the spelling that replaces them, in this order."""
TEXT = re.compile(r"\\(?:text|mbox|text[a-z]{2}|math(?:rm|bf|it|sf)|operatorname\*?)\s*\{([^{}]*)\}")
LETTER_UNITS = "mghslLNJWVΩK"
"""Units of one letter, which outside \\text are variables."""
GROUPED = re.compile(r"(?<=\d)(,?\\!\s*|\\[, ]|\{,\}|[ ~])(?=\d{3}(?![\d/]))")
"""Separators of thousands besides the comma."""
THOUSANDS = re.compile(r"(?<![\d,.])[1-9]\d{0,2}(,\d{3})+(?![\d,])")
REPEATING = re.compile(
    r"(?<!\d)(\d*)\.(\d*?)"
    r"(?:\\(?:overline|bar|dot)\{(\d+)\}|\\dot(\d)|\((\d+)\)|(\d{1,6}?)\6\6+(?:\.\.\.|\\ldots\s*))"
    r"(?:(\d*)\\dot\{?(\d)\}?)?"
)
r"""0.1\overline{6}, 0.\dot{3}, 0.\dot1 4\dot2, 0.(3), 0.333…"""
SCIENTIFIC = re.compile(r"(?<![\w.])(\d++\.?\d*+|\.\d++)[eE]([+-]?\d{1,3})(?!\w)")
ORDINAL = re.compile(rf'\^\s*\{{?\s*"?\s*(st|nd|rd|th)\s*"?\s*\}}?{END}')
OPENING = re.compile(
    r'"?\s*(the\s+)?(final\s+)?answer(\s+is)?\s*[:=]?\s*"?\s*|答案\s*[是为]?\s*:?\s*|\\(therefore|approx)\s*|=\s*'
    r"|(option|choice)\s+(?=\(?[A-J]\)?$)",
    re.IGNORECASE,
)
"""What says that an answer follows."""
SEPARATOR = re.compile(
    rf"\s*(?:,\s*(?:and|or){END}|,|;|(?<![a-zA-Z])(?:and|or){END}|[或和])\s*",
)
"""Between the entries of a list."""


@functools.lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Without what only changes the look, and with one spelling of everything."""
    for character, latex in CHARACTERS.items():
        text = text.replace(character, latex)
    text = GROUPED.sub("", text.strip())
    for pattern, spelling in SPELLINGS.items():
        text = re.sub(pattern, spelling, text)
    while (unwrapped := TEXT.sub(_unwrapped, text)) != text:
        text = unwrapped
    text = re.sub(r'"\s*/\s*"', "/", text)  # of "km" / "h"
    text = " ".join(ORDINAL.sub(r' "\1"', text).split())
    if text[:1] == text[-1:] == "$" and len(text) > 2:
        text = text.strip("$").strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip("$ ")
    if found := OPENING.match(text):
        text = text[found.end() :]
    text = SCIENTIFIC.sub(r"\1\\times 10^{\2}", REPEATING.sub(_as_fraction, text)).strip()
    while text[:1] == "{" and closes(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _unwrapped(found: re.Match[str]) -> str:
    r"""The content of \text{…}: words in quotes; one letter, a choice, or a number with words as it is."""
    words = found[1].strip()
    is_bare = len(words) < 2 or re.search(r"\d", words) or re.fullmatch(r"\(?[A-Ja-j]\)?[.:]?", words)
    if words not in LETTER_UNITS and (is_bare or not re.search(LETTER, words)):
        return f" {words} " if words != found[1] else words
    # Separators stay outside the quotes: "3 and 4" is a list.
    return SEPARATOR.sub(lambda mark: f'"{mark[0]}"' if mark[0].strip() else mark[0], f' "{words}" ').replace('""', "")


def _as_fraction(repeating: re.Match[str]) -> str:
    whole, once, *periods = repeating.groups(default="")
    period = "".join(periods)
    numerator = int(f"0{whole}{once}{period}") - int(f"0{whole}{once}")
    return f"\\frac{{{numerator}}}{{{(10 ** len(period) - 1) * 10 ** len(once)}}}"


def without_thousands(text: str) -> str:
    """1,234 as 1234."""
    return THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)


def tight(text: str) -> str:
    """Without insignificant blanks (those between letters or digits stay), quotes, and braces around one character."""
    text = re.sub(r"\{(\w)\}", r" \1 ", text)
    return re.sub(r" ?([^\w ]) ?", r"\1", " ".join(text.replace('"', "").split()))


def closes(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed; −1: nowhere. Intervals may close with the other kind."""
    depth = 0
    for found in re.finditer(r"\\.|[()\[\]{}]", text[start:]):
        if found[0] in ("(", "[", "{", "\\{"):
            depth += 1
        elif found[0] in (")", "]", "}", "\\}"):
            depth -= 1
            if depth == 0:
                return start + found.end() - 1
    return -1


def split(text: str, separator: re.Pattern[str] = SEPARATOR) -> list[str]:
    """The parts of a text between separators outside brackets and environments."""
    return list(pieces(text, separator)[::2])


@functools.lru_cache(maxsize=1024)
def pieces(text: str, separator: re.Pattern[str]) -> tuple[str, ...]:
    """Parts and the separators between them in turn. An entry of a list is read once for all it is compared with."""
    found, start, at = [], 0, 0
    while at < len(text):
        if text[at] in "([{" or text.startswith(("\\{", "\\begin{"), at):
            end = text.find("\\end{", at) if text.startswith("\\begin{", at) else closes(text, at)
            at = (at if end < 0 else end) + 1
        elif (mark := separator.match(text, at)) and mark[0].strip():
            found += [text[start:at], mark[0].strip()]
            start = at = mark.end()
        else:
            at += 2 if text[at] == "\\" and not text[at + 1 : at + 2].isalpha() else 1
    found.append(text[start:])
    return tuple(piece.strip() if piece.strip('" ') else "" for piece in found)
