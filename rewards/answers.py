r"""Whether two answers are the same: lists, sets, tuples, intervals, equations, units, choices and words.

An answer is cleaned of formatting (`clean`), and compared by what it is, the first kind that fits either side:

    choice       \textbf{(A)}\ 12     A, or A. 12
    time, base   10:30, 1101_2        as written
    words        \text{New York}      new york
    union        (-\infty,1)\cup(3,4) the parts in any order
    relation     x=5, 0<x<2, x+y=7    5; (0,2); an equation with the same solutions
    group        (1,2) [1,2) \{1,2\}  the same brackets, and the same entries: of a set or a bare list in any order
    matrix       rows and columns
    quantity     5\text{ cm}          5, but not 5 m
    expression   \frac12              .5 (rewards/expressions.py)

What fits none is compared as text. A wrong answer taken for right is worse than a right one that is refused: nothing is
dropped that could make a difference. Not covered: finding the answer in a response (rewards/math.py).
"""

import functools
import re
from collections.abc import Sequence
from itertools import pairwise

from rewards.expressions import Unreadable, equal, proportional

SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "×": "\\times ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "\\div ", "π": "\\pi ",
    "∞": "\\infty ", "∪": "\\cup ", "∅": "\\emptyset ", "≤": "\\le ", "⩽": "\\le ", "≥": "\\ge ", "⩾": "\\ge ",
    "≠": "\\ne ", "≈": "\\approx ", "±": "\\pm ", "∈": "\\in ", "½": "\\frac12 ", "¼": "\\frac14 ", "¾": "\\frac34 ",
    "⅓": "\\frac13 ", "⅔": "\\frac23 ", "√": "\\sqrt ", "²": "^2", "³": "^3", "°": "^\\circ ", "（": "(", "）": ")",
    "，": ",", "、": ",", "；": ";", "：": ":", "。": ".", "％": "%", "＝": "=", "＋": "+", "－": "-", "【": "[", "】": "]",
    "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ", "λ": "\\lambda ", "∠": "\\angle ", "△": "\\triangle ", "…": "\\ldots ",
}  # fmt: skip
"""Characters that stand for LaTeX."""
SPELLINGS = (
    (r"\\(?:dfrac|tfrac|cfrac)(?![a-zA-Z])", r"\\frac"), (r"\\(?:leq|leqslant)(?![a-zA-Z])", r"\\le "),
    (r"\\(?:geq|geqslant)(?![a-zA-Z])", r"\\ge "), (r"\\lt(?![a-zA-Z])", "<"), (r"\\gt(?![a-zA-Z])", ">"),
    (r"\\(?:neq|not\s*=)", r"\\ne "), (r"\\varnothing", r"\\emptyset "), (r"\\(?:left|right)(?![a-zA-Z])\.?", ""),
    (r"\\(?:bigl?|bigr?|Bigl?|Bigr?|displaystyle|textstyle|limits|hline)(?![a-zA-Z])", ""), (r"\\[()\[\]]", ""),
    (r"\\(?:lbrace|lvert)(?![a-zA-Z])", r"\\{"), (r"\\rbrace(?![a-zA-Z])", r"\\}"), (r"\\(?:degree|deg)(?![a-zA-Z])", r"^\\circ "),
    (r"\\[,;:!>]|\\(?:quad|qquad|enspace|hfill)(?![a-zA-Z])|\\ |~", " "), (r"<=", r"\\le "), (r">=", r"\\ge "), (r"!=", r"\\ne "),
    (r"\\(?:color|textcolor)\{\w+\}", ""), (r"\\(?:underline|boxed|fbox|mbox|ensuremath)(?=\s*\{)", ""), (r"\\\$", "$"), (r"\\%", "%"),
    (r"\\&", "&"), (r"\\(?:lim\b|dots|cdots)(?![a-zA-Z])", r"\\ldots "), (r"\^\{?\\circ\}?", r"^\\circ "), (r"\*\*", "^"),
    (r"\\mathbb\s*\{?R\}?|ℝ", r"(-\\infty,\\infty)"), (r"\\langle(?![a-zA-Z])", "("), (r"\\rangle(?![a-zA-Z])", ")"),
    (r"^\\\{\s*([a-zA-Z])\s*(?:\||:|\\mid(?![a-zA-Z]))\s*(\S.*)\\\}$", r"\2"),
)  # fmt: skip
"""Commands with the same meaning, and those that only change the look."""
TEXT = re.compile(r"\\(?:text|textbf|textit|textrm|textsf|mathrm|mathbf|mathit|mathsf|operatorname\*?|bf|rm)\s*\{([^{}]*)\}")
GROUPED = re.compile(r"(?<=\d)(,?\\!|\\[, ]|\{,\}|[ ~])(?=\d{3}(?![\d/]))")
"""Separators of thousands besides the comma."""
THOUSANDS = re.compile(r"(?<![\d,.])\d{1,3}(,\d{3})+(?![\d,])")
REPEATING = re.compile(
    r"(\d*)\.(\d*?)(?:\\(?:overline|bar|dot)\{(\d+)\}|\\dot(\d)|\((\d+)\)|(\d{1,6}?)\6\6+(?:\.\.\.|\\ldots\s*))(?:(\d*)\\dot\{?(\d)\}?)?"
)
"""A repeating decimal: 0.1\\overline{6}, 0.\\dot{3}, 0.\\dot1 4\\dot2, 0.(3), 0.333…"""
SCIENTIFIC = re.compile(r"(?<![\w.])(\d+\.?\d*|\.\d+)[eE]([+-]?\d{1,3})(?!\w)")
OPENING = re.compile(
    r"\"?\s*(?:the\s+)?(?:final\s+)?answer(?:\s+is)?\s*[:=]?\s*\"?\s*|答案\s*[是为]?\s*:?\s*|\\therefore\s*|\\approx\s*|=\s*|\$\\approx\s*",
    re.IGNORECASE,
)
"""What says that an answer follows."""
WORD = r"[^\W\d_]"
WORDS = re.compile(rf"{WORD}[^\d_=<>+*/^\\{{}}\[\]|$%:]*")
SYMBOLIC = re.compile(r"\\(angle|triangle|overline|overrightarrow|vec|widehat)(?![a-zA-Z])")
CHOICE = re.compile(r"\(?\s*([A-Ja-j])\s*(?:\)|(?<!\()[.:](?=\s|$|\D)|(?<!\()\)|$)\s*(.*)", re.DOTALL)
TIME = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
BASED = re.compile(r"([0-9A-Za-z]+)\s*_\s*\{?\s*(\d{1,2})\s*\}?")
CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yuan", "￥": "yuan", "元": "yuan"}
UNITS = (
    "mm cm dm km kg mg ml mL kL kW kWh MHz GHz Hz mol Pa kPa hr hrs min mins sec secs ms ft in inch inches feet foot yd mi mph "
    "miles mile lb lbs oz rad degrees degree dollars dollar cents cent euros euro pounds pound yuan percent units unit square "
    "cubic meters meter metres metre centimeters centimeter kilometers kilometer hours hour minutes minute seconds second days "
    "day years year months month weeks week people students st nd rd th a.m p.m am pm AM PM"
).split()
"""Units that are understood without \\text."""
UNIT_LETTERS = tuple("mghsLlNJWVΩK")
"""Units of one letter, which without \\text are variables."""
SAME_UNIT = {"a.m": "am", "p.m": "pm", "AM": "am", "PM": "pm", "percent": "%", "°": "degree", "^\\circ": "degree", "metre": "meter", "cm": "centimeter",
             "m": "meter", "km": "kilometer", "hr": "hour", "h": "hour", "min": "minute", "sec": "second", "s": "second",
             "feet": "foot", "ft": "foot", "inche": "inch", "in": "inch"}  # fmt: skip
NO_UNIT = re.compile(
    r"\b(or|and|not|to|than|more|less|most|least|if|if|between|plus|minus|times|over|of|squared|cubed|hundred|thousand|million|"
    r"billion|trillion|dozen|hal(f|ves)|thirds?|quarters?|fifths?|sixths?|tenths?|hundredths?|thousandths?|k|factorial|mod)\b"
    r"|[百千万亿或和至到]",
    re.IGNORECASE,
)
"""Words after a number that change it."""
SCALE = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "亿": 8}
RELATION = re.compile(r"(\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|\\ne(?![a-zA-Z])|\\in(?![a-zA-Z])|\\approx(?![a-zA-Z])|[=<>])")
TURNED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
NAME = re.compile(
    r"(?:\\?[a-zA-Z]+|\"[^\"]*\"|\\angle\s*[A-Z]+)(?:\s*_\s*(?:\w|\{[^{}]*\}))?'*(?:\s*\([a-zA-Z\\,\s]*\))?|(?:\s*[a-zA-Z]){1,12}"
)
"""What stands before = when it only names the answer: x, f(x), a_n, Area."""
MATRIX = re.compile(r"\\begin\{([bpvV]?matrix|array|cases|aligned)\}(?:\{[^{}]*\})?(.*)\\end\{\1\}", re.DOTALL)
SEPARATOR = re.compile(r"\s*(?:,\s*(?:and|or)(?![a-zA-Z])|,|;|(?<![a-zA-Z])(?:and|or)(?![a-zA-Z])|[或和])\s*")
BRACKETS = re.compile(r"[(\[{]")
MOST_BRACKETS = 300
CLOSING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}


@functools.lru_cache(maxsize=4096)
def clean(text: str) -> str:
    """Without what only changes the look, and with one spelling of everything."""
    text = text.strip()
    for character, latex in SYMBOLS.items():
        text = text.replace(character, latex)
    text = GROUPED.sub("", text)
    for pattern, spelling in SPELLINGS:
        text = re.sub(pattern, spelling, text)
    while (unwrapped := TEXT.sub(_unwrapped, text)) != text:
        text = unwrapped
    text = re.sub(r'\^\s*\{?\s*"?\s*(st|nd|rd|th)\s*"?\s*\}?(?![a-zA-Z])', r' "\1"', text)
    text = " ".join(text.split()).strip()
    for mark in ("$", "$$"):
        if text.startswith(mark) and text.endswith(mark) and len(text) > 2 * len(mark):
            text = text[len(mark) : -len(mark)].strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip("$ ")
    text = OPENING.sub("", text, count=1) if OPENING.match(text) else text
    text = SCIENTIFIC.sub(r"\1\\times 10^{\2}", REPEATING.sub(_as_fraction, text))
    return _without_braces(text.strip())


def same_answer(answer: str, truth: str) -> bool:
    """Whether an answer equals the truth; both are LaTeX or words."""
    given, wanted = clean(answer), clean(truth)
    if not given:
        return False
    if _tight(given) == _tight(wanted):
        return True
    plain = THOUSANDS.sub(lambda number: number[0].replace(",", ""), given)
    if any(len(BRACKETS.findall(text)) > MOST_BRACKETS for text in (given, wanted)):
        return False
    pairs = dict.fromkeys((one, other) for one in (given, plain) for other in (wanted, _ungrouped(wanted)))
    return any(_same(one, other) for one, other in pairs)


def _ungrouped(text: str) -> str:
    return THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)


def _unwrapped(found: re.Match[str]) -> str:
    r"""\text{…}: one letter, a number or brackets are as good without; words become "…" so that they are no product."""
    words = found[1].strip()
    if words in UNIT_LETTERS:
        return f' "{words}" '
    if len(words) <= 1 or re.search(r"\d", words) or not re.search(WORD, words) or CHOICE.fullmatch(words):
        return f" {words} " if words != found[1] else words
    return SEPARATOR.sub(lambda mark: f'"{mark[0]}"' if mark[0].strip() else mark[0], f' "{words}" ').replace('""', "")


def _as_fraction(repeating: re.Match[str]) -> str:
    whole, once, *others = repeating.groups()
    period = next(each for each in others[:4] if each) + (others[4] or "") + (others[5] or "")
    whole = whole or "0"
    numerator = int(whole + once + period) - int(whole + once)
    return f"\\frac{{{numerator}}}{{{(10 ** len(period) - 1) * 10 ** len(once)}}}"


def _without_braces(text: str) -> str:
    while text[:1] == "{" and text[-1:] == "}" and _closes(text, 0) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _tight(text: str) -> str:
    """Without insignificant blanks (those between letters or digits stay) and braces around one character."""
    text = re.sub(r"\{(\w)\}", r" \1 ", text)
    return re.sub(r" ?([^\w ]) ?", r"\1", " ".join(text.replace('"', "").split()))


def _closes(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed; −1: nowhere. Intervals may close with the other kind."""
    depth = 0
    for found in re.finditer(r"\\.|[()\[\]{}]", text[start:]):
        depth += (found[0] in ("(", "[", "{", "\\{")) - (found[0] in (")", "]", "}", "\\}"))
        if depth == 0 and found[0] not in ("\\\\",) and not re.fullmatch(r"\\[^{}]", found[0]):
            return start + found.end() - 1
    return -1


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts of a text between separators outside brackets and environments."""
    return _pieces(text, separator)[::2]


def _pieces(text: str, separator: re.Pattern[str]) -> list[str]:
    """Parts and the separators between them in turn."""
    pieces, start, at = [], 0, 0
    while at < len(text):
        if text[at] in "([{" or text.startswith(("\\{", "\\begin{"), at):
            end = text.find("\\end{", at) if text.startswith("\\begin{", at) else _closes(text, at)
            at = (at if end < 0 else end) + 1
        elif (mark := separator.match(text, at)) and mark[0].strip():
            pieces += [text[start:at], mark[0].strip()]
            start = at = mark.end()
        else:
            at += 2 if text[at] == "\\" and not text[at + 1 : at + 2].isalpha() else 1
    pieces.append(text[start:])
    return [piece.strip() if piece.strip('" ') else piece.replace('"', " ").strip() for piece in pieces]


# ---- by kind -------------------------------------------------------------------------------------------------------


def _same(answer: str, truth: str) -> bool:
    """Whether two cleaned texts are the same answer."""
    if not answer or not truth:
        return False
    if _tight(answer) == _tight(truth):
        return True
    for compare in (_choices, _as_written, _words, _unions, _relations, _groups, _matrices, _signs):
        found = compare(answer, truth)
        if found is not None:
            return found
    return _quantities(answer, truth)


def _choices(answer: str, truth: str) -> bool | None:
    """A is `(A)`, `A.`, `A: 12`; with a text on both sides that must be the same too."""
    given, wanted = (CHOICE.fullmatch(text.replace('"', "").strip()) for text in (answer, truth))
    if any(found and SEPARATOR.match(found[2]) for found in (given, wanted)):  # (A) or (B)
        return None
    if wanted is None:
        content = given[2].strip() if given else ""
        return _same(content, truth) if content else None
    if given is None:
        return _same(answer, wanted[2]) if wanted[2] else None
    contents = given[2].strip(), wanted[2].strip()
    return given[1].upper() == wanted[1].upper() and (not all(contents) or _same(*contents))


def _as_written(answer: str, truth: str) -> bool | None:
    """Times of day, and numbers with a base; a base may be left out where the truth has one."""
    for text in (answer, truth):
        if TIME.match(text.strip('" ')):
            return _tight(answer).casefold() == _tight(truth).casefold()
    given, wanted = BASED.fullmatch(answer), BASED.fullmatch(truth)
    if wanted and wanted[1][0].isdigit():
        return given.groups() == wanted.groups() if given else answer == wanted[1]
    return False if given and given[1][0].isdigit() else None


def _words(answer: str, truth: str) -> bool | None:
    """Words and names of points: letters alone are no product, or ACB would equal ABC."""
    given, wanted = (_read_words(text) for text in (answer, truth))
    if given is None or wanted is None:
        return None
    if len(given[1]) < 2 and len(wanted[1]) < 2 and not given[0] and not wanted[0]:
        return given[1] == wanted[1]
    symbols_fit = given[0] == wanted[0] or (not (given[0] and wanted[0]) and len(wanted[1]) > 1)
    return symbols_fit and _folded(given[1]) == _folded(wanted[1])


def _read_words(text: str) -> tuple[str, str] | None:
    """(\\angle or another symbol, the letters without blanks); None where there is anything else."""
    symbols = SYMBOLIC.findall(text)
    bare = SYMBOLIC.sub(" ", text).replace('"', "").replace("{", "").replace("}", "").strip(" .!")
    if len(symbols) > 1 or not WORDS.fullmatch(bare) or any(mark in bare for mark in ",;()"):
        return None
    return (symbols[0] if symbols else ""), "".join(bare.split())


def _folded(word: str) -> str:
    """Without case, except where case means something: Mg and mg, Rr and rr."""
    lower = word.casefold()
    short = len(word) < 3 and lower != "no"
    return word if short or re.fullmatch(r"((.)\2)+", lower) else lower


def _unions(answer: str, truth: str) -> bool | None:
    r"""\cup, and `or` between relations: the parts in any order."""
    cup = re.compile(r"\s*\\cup(?![a-zA-Z])\s*")
    given, wanted = (_split(text, cup) for text in (answer, truth))
    for parts, text in ((given, answer), (wanted, truth)):
        pieces = _split(text, SEPARATOR)
        if len(parts) == 1 and len(pieces) > 1 and all(_interval(piece) for piece in pieces):
            parts[:] = pieces
    if len(given) == 1 and len(wanted) == 1:
        return None
    return _in_any_order(given, wanted)


def _in_any_order(given: Sequence[str], wanted: Sequence[str]) -> bool:
    left = list(wanted)
    if len(given) != len(wanted):
        return False
    for one in given:
        found = next((other for other in left if _same(one, other)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _relations(answer: str, truth: str) -> bool | None:
    """Equations and inequalities; None where neither is one, or both are lists of them."""
    if len(_split(answer, SEPARATOR)) > 1 or len(_split(truth, SEPARATOR)) > 1:
        return None
    given, wanted = _split_relation(answer), _split_relation(truth)
    if len(given) == 1 and len(wanted) == 1:
        return None
    one, other = _interval(answer), _interval(truth)
    if one or other:
        return bool(one or given[1:] == []) and bool(other or wanted[1:] == []) and _same_interval(
            one or answer, other or truth
        )
    named = [_named(sides) for sides in (given, wanted)]
    if named[0] and named[1] and _tight(named[0][0]) == _tight(named[1][0]):
        return _same(named[0][1], named[1][1])
    for name, text in ((named[0], truth), (named[1], answer)):
        if name and len(_split_relation(text)) == 1:
            return _same(name[1], text) if text is truth else _same(text, name[1])
    for sides, text in ((given, truth), (wanted, answer)):  # 3+4=7 is 7
        if len(sides) > 1 and len(_split_relation(text)) == 1:
            values = sides[::2]
            numeric = all(mark == "=" for mark in sides[1::2]) and all(values) and not re.search("[a-zA-Z]", values[-1])
            return numeric and all(_same(*pair) for pair in pairwise(values)) and _same(values[-1], text)
    if [mark for mark in given[1::2]] == [mark for mark in wanted[1::2]] == ["="]:
        try:
            return proportional(f"({given[0]})-({given[2]})", f"({wanted[0]})-({wanted[2]})")
        except Unreadable:
            return False
    return given[1::2] == wanted[1::2] and all(
        _same(one, other) for one, other in zip(given[::2], wanted[::2], strict=True)
    )


def _split_relation(text: str) -> list[str]:
    """Sides and signs in turn; a text that is no relation is one side."""
    return _pieces(text, RELATION)


def _named(sides: list[str]) -> tuple[str, str] | None:
    """(name, value) of an equation or ∈ whose left side only names the right one: x=5, f(x)=x^2, (x,y)=(1,2)."""
    if len(sides) < 3 or sides[1] not in ("=", "\\in", "\\approx"):
        return None
    name = sides[0].strip()
    is_tuple = re.fullmatch(r"\([a-zA-Z](,\s*[a-zA-Z])+\)", name.replace(" ", ""))
    if not is_tuple and not NAME.fullmatch(name):
        return None
    if len(sides) > 3:
        rest = sides[2::2]
        if any(mark != "=" for mark in sides[3::2]) or not all(_same(*pair) for pair in pairwise(rest)):
            return None
    letters = name if len(name) == 1 else ""
    if letters and re.search(rf"(?<![a-zA-Z\\]){letters}(?![a-zA-Z])", sides[-1]):
        return None  # x=2x+1 is no definition of x
    return name, sides[-1]


def _interval(text: str) -> str:
    """An inequality as an interval: 0<x\\le 2 as (0,2]; "" where it is none."""
    sides = _split_relation(text)
    if len(sides) == 3 and NAME.fullmatch(sides[2]) and not NAME.fullmatch(sides[0]):
        sides = sides[::-1]
        sides[1] = TURNED.get(sides[1], "")
    elif len(sides) == 5 and sides[1] in (">", "\\ge"):
        sides = sides[::-1]
        sides[1::2] = [TURNED.get(mark, "") for mark in sides[1::2]]
    if len(sides) not in (3, 5) or not all(mark in TURNED for mark in sides[1::2]) or not all(sides):
        return ""
    if len(sides) == 5:
        rises = all(mark in ("<", "\\le") for mark in sides[1::2]) and NAME.fullmatch(sides[2])
        return _bracketed(sides[0], sides[1] == "\\le", sides[4], sides[3] == "\\le") if rises else ""
    name, mark, bound = sides
    if not NAME.fullmatch(name):
        return ""
    if mark in ("<", "\\le"):
        return _bracketed("-\\infty", False, bound, mark == "\\le")
    return _bracketed(bound, mark == "\\ge", "\\infty", False)


def _bracketed(low: str, has_low: bool, high: str, has_high: bool) -> str:
    return f"{'[' if has_low else '('}{low},{high}{']' if has_high else ')'}"


def _same_interval(one: str, other: str) -> bool:
    return bool(_group(one) and _group(other)) and bool(_groups(one, other))


def _group(text: str) -> tuple[str, str, list[str]] | None:
    r"""(opening, closing, entries) of brackets around the whole text; a bare list has none; None: it is no group."""
    text = text.strip()
    if re.fullmatch(r"\\emptyset|\\\{\s*\\\}", text):
        return "\\{", "\\}", []
    if french := re.fullmatch(r"([\[\]])([^\[\](){}]+)([\[\]])", text):
        entries = _split(french[2], SEPARATOR)
        if len(entries) == 2 and french[1] + french[3] != "[]":
            return "(" if french[1] == "]" else "[", ")" if french[3] == "[" else "]", entries
    for opening in ("\\{", "(", "["):
        if text.startswith(opening) and (end := _closes(text, 0)) == len(text) - 1:
            closing = text[end - 1 :] if text[end - 1] == "\\" else text[end]
            return opening, closing, _split(text[len(opening) : len(text) - len(closing)], SEPARATOR)
    if (lines := MATRIX.fullmatch(text)) and lines[1] in ("cases", "aligned", "array"):
        rows = re.split(r"\\\\", lines[2].strip().removesuffix("\\\\"))
        return "", "", [row.replace("&=", "=").strip(" ,;.") for row in rows]
    entries = _split(text, SEPARATOR)
    return ("", "", entries) if len(entries) > 1 else None


def _groups(answer: str, truth: str) -> bool | None:
    """Tuples, sets, intervals, lists."""
    given, wanted = _group(answer), _group(truth)
    if given is None and wanted is None:
        return None
    given, wanted = given or _of_tuple(answer), wanted or _of_tuple(truth)
    for one, other, text in ((given, wanted, truth), (wanted, given, answer)):
        if one and one[0] in ("(", "[") and len(one[2]) == 1 and other is None:  # (5) is 5
            return _same(one[2][0], text) if CLOSING[one[0]] == one[1] and one[2][0] != answer and not re.search(
                r"[a-zA-Z]\s*\(", answer) else None  # fmt: skip
    if given is None or wanted is None:
        entries = _expanded(given[2] if given else [answer]), _expanded(wanted[2] if wanted else [truth])
        brackets = (given or wanted or ("",))[0]
        return brackets in ("", "\\{") and len(entries[0]) == len(entries[1]) and _in_any_order(*entries)
    one, other = _values(given), _values(wanted)
    if one is None or other is None:
        return _as_assignments(given[2]) == _as_assignments(wanted[2]) or _same_assignments(given[2], wanted[2])
    kinds = given[0], wanted[0]
    if "\\{" in kinds or kinds == ("", ""):
        if not set(kinds) <= {"", "\\{"}:
            return False
        given_entries, wanted_entries = _expanded(one), _expanded(other)
        if len(given_entries) > 4 * len(wanted_entries) + 8:
            return False
        if "\\{" in kinds:
            given_entries, wanted_entries = _distinct(given_entries), _distinct(wanted_entries)
        return _in_any_order(given_entries, wanted_entries)
    brackets_fit = given[:2] == wanted[:2] or ("" in kinds and set(kinds) <= {"", "("})
    return brackets_fit and len(one) == len(other) and all(map(_same, one, other))


def _of_tuple(text: str) -> tuple[str, str, list[str]] | None:
    """(x,y)=(1,2) as x=1, y=2."""
    named = _named(_split_relation(text))
    names, values = (_group(named[0]), _group(named[1])) if named else (None, None)
    if not names or not values or len(names[2]) != len(values[2]):
        return None
    return "", "", [f"{name}={value}" for name, value in zip(names[2], values[2], strict=True)]


def _values(group: tuple[str, str, list[str]]) -> list[str] | None:
    """The entries; of x=1, y=2 None, if that has to be compared by names."""
    return None if _as_assignments(group[2]) else group[2]


def _as_assignments(entries: list[str]) -> dict[str, str]:
    """Names and values of entries that all are `name=value`; empty otherwise."""
    named = [_named(_split_relation(entry)) for entry in entries]
    return {} if None in named else {_tight(each[0]): each[1] for each in named if each}


def _same_assignments(given: list[str], wanted: list[str]) -> bool:
    """x=1, y=2 against the same in any order, or against (1,2)."""
    one, other = _as_assignments(given), _as_assignments(wanted)
    values = [[_named(_split_relation(entry)) for entry in entries] for entries in (given, wanted)]
    plain = [
        [each[1] if each else entry for each, entry in zip(of, entries, strict=True)]
        for of, entries in zip(values, (given, wanted), strict=True)
    ]
    if one and other and len(one) == len(given) and len(other) == len(wanted):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if len(one or other) == 1:  # x=5, x=6 lists the values of x
        return _in_any_order(*plain)
    return len(given) == len(wanted) and all(map(_same, *plain))


def _distinct(entries: list[str]) -> list[str]:
    kept: list[str] = []
    for entry in entries:
        if not any(_same(entry, other) for other in kept):
            kept.append(entry)
    return kept


def _expanded(entries: list[str]) -> list[str]:
    """Entries with \\pm as two."""
    return [
        text
        for entry in entries
        for text in (
            [entry.replace("\\pm", "+").replace("\\mp", "-"), entry.replace("\\pm", "-").replace("\\mp", "+")]
            if "\\pm" in entry
            else [entry]
        )
    ]


def _matrices(answer: str, truth: str) -> bool | None:
    """The same rows and columns; lines of `cases` are a list."""
    given, wanted = (MATRIX.fullmatch(_without_round(text)) for text in (answer, truth))
    if given is None or wanted is None:
        return False if MATRIX.search(answer) or MATRIX.search(truth) else None
    cells = [
        [_split(row, re.compile(r"\s*&\s*")) for row in re.split(r"\\\\", found[2].strip().removesuffix("\\\\"))]
        for found in (given, wanted)
    ]
    one, other = cells
    shapes = [list(map(len, of)) for of in cells]
    kinds = {"v" in found[1] or "V" in found[1] for found in (given, wanted)}
    return shapes[0] == shapes[1] and len(kinds) == 1 and all(
        _same(*pair) for rows in zip(one, other, strict=True) for pair in zip(*rows, strict=True)
    )


def _without_round(text: str) -> str:
    """Without round brackets around a whole matrix."""
    return text[1:-1].strip() if text.startswith("(") and _closes(text, 0) == len(text) - 1 else text


def _signs(answer: str, truth: str) -> bool | None:
    """±: both values."""
    if "\\pm" not in answer and "\\pm" not in truth:
        return None
    return _in_any_order(_expanded([answer]), _expanded([truth]))


def _quantities(answer: str, truth: str) -> bool:
    """Numbers and expressions with or without a unit, which must be the same where both have one."""
    given, wanted = _unit(answer), _unit(truth)
    if given[1] and wanted[1] and given[1] != wanted[1]:
        if "%" not in (given[1], wanted[1]) or "" not in (given[1], wanted[1]):
            return False
    if _same_value(given[0], wanted[0]):
        return True
    percents = [unit == "%" for unit in (given[1], wanted[1])]
    if percents[0] != percents[1]:  # 50 % is 50, and .5
        one, other = (f"({value})/100" if is_percent else value for value, is_percent in zip(
            (given[0], wanted[0]), percents, strict=True))  # fmt: skip
        return _same_value(one, other)
    return False


def _same_value(one: str, other: str) -> bool:
    try:
        return equal(one, other)
    except Unreadable:
        return _tight(one) == _tight(other)


def _unit(text: str) -> tuple[str, str]:
    """(value, unit) of a quantity; words that could change the value stay with it, which makes it unreadable."""
    text = text.strip()
    if text[:1] in CURRENCIES:
        return _scaled(text[1:].strip(), CURRENCIES[text[0]])
    if text[-1:] in ("$", "€", "£", "元"):
        return text[:-1].strip(), CURRENCIES[text[-1]]
    if text.endswith("%"):
        return text[:-1].strip(" \\"), "%"
    if text.endswith("^\\circ") and not re.search(r"sin|cos|tan|cot|sec|csc", text):
        return text.removesuffix("^\\circ").strip(), "degree"
    power = r"(?:\s*\^\s*\{?\s*[23]\s*\}?)?"
    bare = "|".join(re.escape(unit) for unit in sorted(UNITS, key=len, reverse=True))
    found = re.fullmatch(
        rf'(.*?[\d)}}!a-z])\s*(?:((?:\^\\circ\s*)?"[^"]*"{power}|[一-鿿]+)|(?<![a-zA-Z\\])((?:(?:{bare})\.?\s*)+{power})|'
        rf"(?<=[\d)}}]) ({WORD}{{3,}}(?: {WORD}+){{0,3}}))",
        text,
    )
    if found is None:
        return text, ""
    unit = next(group for group in found.groups()[1:] if group).replace('"', "").strip()
    return _scaled(found[1].strip(), unit, text)


def _scaled(value: str, unit: str, whole: str = "") -> tuple[str, str]:
    for word, zeros in SCALE.items():
        for text in (value, unit):
            if scaled := re.fullmatch(rf'(.*?)\s*"?\s*\b{word}\b\s*"?\s*(.*)' if word.isascii() else rf"(.*?){word}(.*)", text):
                number = f"{scaled[1] or value}\\cdot 10^{{{zeros}}}"
                rest = scaled[2] if text is unit else unit
                return number, _unit_name(rest)
    if NO_UNIT.search(unit):
        return whole or f"{value} {unit}", ""
    return value, _unit_name(unit)


def _unit_name(unit: str) -> str:
    name, _, power = re.sub(r"[\s{}]", "", unit.strip(" .")).partition("^")
    name = name if len(name) <= 2 else name.casefold()
    if found := re.fullmatch(r"(square|cubic)(.+)", name):
        name, power = found[2], "2" if found[1] == "square" else "3"
    singular = name[:-1] if len(name) > 3 and name.endswith("s") else name
    return f"{SAME_UNIT.get(singular, singular)}{power}"
