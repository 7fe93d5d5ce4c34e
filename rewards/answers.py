r"""Whether two answers are the same: lists, sets, tuples, intervals, equations, quantities, choices and words.

An answer is cleaned of formatting (rewards/latex.py), and compared as the first of these that fits either side:

    choice       \textbf{(A)}\ 12     A; A. 12
    time, base   10:30, 1101_2        as written
    words        \text{New York}      new york
    union        (-\infty,1)\cup(3,4) the parts in any order
    relation     x=5; 0<x<2; x+y=7    5; (0,2); an equation with the same solutions
    group        (1,2), [1,2), {1,2}  the same brackets and entries; of a set or a bare list in any order
    matrix       rows and columns     cell by cell
    quantity     5\text{ cm}          5, but not 5 m (rewards/units.py)
    expression   \frac12              .5 (rewards/expressions.py)

What fits none is compared as text. A wrong answer taken for right is worse than a right one that is refused: nothing is
dropped that could make a difference. Not covered: finding the answer in a response (rewards/math.py).
"""

import re
from collections.abc import Sequence
from itertools import chain, pairwise

from rewards.expressions import Unreadable, equal, proportional
from rewards.latex import END, LETTER, SEPARATOR, clean, closes, pieces, split, tight, without_thousands
from rewards.units import quantity

MOST_BRACKETS = 300
MOST_COMPARED = 100
"""Entries of a list in any order; those of longer ones are compared as they are written."""
WORDS = re.compile(rf"{LETTER}[^\d_=<>+*/^\\{{}}\[\]|$%:,;()]*")
SYMBOLS = re.compile(rf"\\(angle|triangle|overline|overrightarrow|vec|widehat){END}")
CHOICE = re.compile(r"\(?\s*([A-Ja-j])\s*(?:\)|(?<!\()[.:](?=\s|$|\D)(?!\w$)|(?<!\()\)|$)\s*(.*)", re.DOTALL)
TIME = re.compile(r"\d{1,2}:\d\d(:\d\d)?")
BASED = re.compile(r"(\d[0-9A-Za-z]*)\s*_\s*\{?\s*(\d{1,2})\s*\}?")
UNION = re.compile(rf"\s*\\cup{END}\s*")
RELATION = re.compile(rf"\\(?:le|ge|ne|in|approx){END}|[=<>]")
TURNED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
"""Inequalities, and the same read from right to left."""
RISING = ("<", "\\le")
_INDEX = r"(?:\s*_\s*(?:\w|\{[^{}]*\}))?'*"
NAME = re.compile(
    rf"(?:\\?[a-zA-Z]+|\"[^\"]*\"|m?\\angle\s*[A-Z]+){_INDEX}(?:\s*\([a-zA-Z\\,\s]*\))?"
    r"|(?:\s*[a-zA-Z]){1,12}"
    rf"|(?:[a-zA-Z]{_INDEX}|[fghFGH]\s*\^\s*\{{?\s*-1\s*\}}?)\s*\((?:[a-z,\s]*|(?:[^()a-zA-Z\\]|\\(?:frac|sqrt|pi){END})*)\)"
    r"|P\s*\([^()]*(?:[=<>|]|\\(?:le|ge|mid|cap|cup))[^()]*\)"
    r"|\\(?:sin|cos|tan|cot|sec|csc)\s*(?:[A-Z]+|\\(?!pi)[a-z]+)"
    r"|\|\s*[A-Z]{2}\s*\||\[\s*[A-Z]{3,}\s*\]|\\(?:overline|overrightarrow|vec)\s*\{\s*[A-Z]{2}\s*\}"
)
"""What stands before = if it only names the answer: x, f(x), a_n, Area, f(2), P(X=2), |AB|, [ABC]."""
SUM_OF_NAMES = re.compile(r"[a-w](\s*\+\s*[a-w])+")
"""m+n=17 states 17; x+y=7 is a line."""
TUPLE_OF_NAMES = re.compile(r"\(\s*[a-zA-Z](\s*,\s*[a-zA-Z])+\s*\)")
MATRIX = re.compile(r"\\begin\{([bpvV]?matrix|array|cases|aligned)\}(?:\{[^{}]*\})?(.*)\\end\{\1\}", re.DOTALL)
LISTS = ("cases", "aligned", "array")
"""Environments whose lines are a list."""
FRENCH = re.compile(r"([\[\]])([^\[\](){}]+)([\[\]])")
CLOSING = {"(": ")", "[": "]"}
Group = tuple[str, str, list[str]]
"""Opening and closing bracket ("" of a bare list), and the entries."""


def same_answer(answer: str, truth: str) -> bool:
    """Whether an answer equals the truth; both are LaTeX or words."""
    given, wanted = clean(answer), clean(truth)
    if any(len(re.findall(r"[(\[{]", text)) > MOST_BRACKETS for text in (given, wanted)):
        return given == wanted
    pairs = dict.fromkeys(
        (one, other) for one in (given, without_thousands(given)) for other in (wanted, without_thousands(wanted))
    )
    try:
        return any(_same(one, other) for one, other in pairs)
    except RecursionError:
        return False


def _same(answer: str, truth: str) -> bool:
    """Whether two cleaned texts are the same answer."""
    if not answer or not truth:
        return False
    if tight(answer) == tight(truth):
        return True
    for compare in (_choices, _as_written, _words, _unions, _relations, _groups, _matrices):
        found = compare(answer, truth)
        if found is not None:
            return found
    return _quantities(answer, truth)


# Each of these decides, or returns None where neither text is of its kind.


def _choices(answer: str, truth: str) -> bool | None:
    """A is (A), `A.`, `A: 12`; with a text on both sides that must be the same too."""
    given, wanted = (CHOICE.fullmatch(text.replace('"', "").strip()) for text in (answer, truth))
    if any(found and SEPARATOR.match(found[2]) for found in (given, wanted)):  # (A) or (B)
        return None
    if given is None or wanted is None:
        texts = (given[2] if given else answer), (wanted[2] if wanted else truth)
        return _same(*texts) if (given or wanted) and all(texts) else None
    contents = given[2].strip(), wanted[2].strip()
    return given[1].upper() == wanted[1].upper() and (not all(contents) or _same(*contents))


def _as_written(answer: str, truth: str) -> bool | None:
    """Times of day, and numbers with a base, which may be left out where the truth has one."""
    if any(TIME.match(text.strip('" ')) for text in (answer, truth)):
        one, other = (tight(text).casefold().replace(".", "") for text in (answer, truth))
        return one == other
    given, wanted = BASED.fullmatch(answer), BASED.fullmatch(truth)
    if wanted:
        return given.groups() == wanted.groups() if given else answer == wanted[1]
    return False if given else None


def _words(answer: str, truth: str) -> bool | None:
    """Words and names of points: letters alone are no product, or ACB would equal ABC."""
    given, wanted = _read_words(answer), _read_words(truth)
    if given is None or wanted is None:
        return None
    may_lack_symbol = len(wanted[1]) > 1 and not (given[0] and wanted[0])
    return (given[0] == wanted[0] or may_lack_symbol) and _folded(given[1]) == _folded(wanted[1])


def _read_words(text: str) -> tuple[str, str] | None:
    r"""(\angle or another symbol, the letters without blanks); None where there is anything else."""
    symbols = SYMBOLS.findall(text)
    bare = re.sub(r'["{}]', "", SYMBOLS.sub(" ", text)).strip(" .!")
    if len(symbols) > 1 or not WORDS.fullmatch(bare):
        return None
    return (symbols[0] if symbols else ""), "".join(bare.split())


def _folded(word: str) -> str:
    """Without case, except where case means something: R and r, Mg and mg, Rr and rr."""
    lower = word.casefold()
    means_something = (len(word) < 3 and lower != "no") or re.fullmatch(r"((.)\2)+", lower)
    return word if means_something else lower


def _unions(answer: str, truth: str) -> bool | None:
    r"""\cup, or inequalities with `or` between them: the parts in any order."""
    given, wanted = _parts(answer), _parts(truth)
    return None if len(given) == len(wanted) == 1 else _in_any_order(given, wanted)


def _parts(text: str) -> list[str]:
    inequalities = split(text)
    is_union = len(inequalities) > 1 and all(map(_interval, inequalities))
    return inequalities if is_union else split(text, UNION)


def _in_any_order(given: Sequence[str], wanted: Sequence[str]) -> bool:
    left = list(wanted)
    if len(given) != len(wanted):
        return False
    if len(given) > MOST_COMPARED:
        return sorted(map(tight, given)) == sorted(map(tight, wanted))
    for one in given:
        found = next((other for other in left if _same(one, other)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _relations(answer: str, truth: str) -> bool | None:
    """Equations and inequalities, one against one, or against a value or an interval."""
    given, wanted = pieces(answer, RELATION), pieces(truth, RELATION)
    if len(given) == len(wanted) == 1 or len(split(answer)) > 1 or len(split(truth)) > 1:
        return None
    one, other = _interval(answer), _interval(truth)
    names, values = zip(*map(_named, (given, wanted)), strict=True)
    if one or other:
        both = (one or values[0]), (other or values[1])  # x>1 against x \in (1,\infty)
        return all(map(_group, both)) and bool(_groups(*both))
    if len(given) == 1 or len(wanted) == 1:  # x=5, or 3+4=7, against a value
        return all(values) and _same(*values)
    if names[0] and tight(names[0]) == tight(names[1]):
        return _same(*values)
    if "(" in "".join(names):  # f(2)=6 is not f(1)=3
        return False
    if given[1::2] == wanted[1::2] == ("=",):
        try:
            return proportional(f"({given[0]})-({given[2]})", f"({wanted[0]})-({wanted[2]})")
        except Unreadable:
            return False
    return given[1::2] == wanted[1::2] and all(map(_same, given[::2], wanted[::2]))


def _named(sides: tuple[str, ...]) -> tuple[str, str]:
    """(name, value) of x=5, f(x)=x^2, x=3+4=7, (x,y)=(1,2), 3+4=7; a value has no name; ("", "") of other relations."""
    if len(sides) == 1:
        return "", sides[0]
    name, values = sides[0], sides[2::2]
    if sides[1] not in ("=", "\\in", "\\approx") or any(mark != "=" for mark in sides[3::2]):
        return "", ""
    if not NAME.fullmatch(name) and not TUPLE_OF_NAMES.fullmatch(name):
        if re.search("[a-zA-Z]", values[-1]):
            return "", ""
        if not SUM_OF_NAMES.fullmatch(name):
            name, values = "", (name, *values)
    if len(name) == 1 and re.search(rf"(?<![a-zA-Z\\]){name}{END}", values[-1]):  # x=2x+1 does not define x
        return "", ""
    return (name, values[-1]) if all(_same(*pair) for pair in pairwise(values)) else ("", "")


def _interval(text: str) -> str:
    r"""An inequality as an interval: 0<x\le 2 as (0,2]; "" where it is none."""
    sides = list(pieces(text, RELATION))
    is_backwards = len(sides) == 3 and NAME.fullmatch(sides[2]) and not NAME.fullmatch(sides[0])
    if is_backwards or (len(sides) == 5 and sides[1] not in RISING):
        sides = sides[::-1]
        sides[1::2] = [TURNED.get(mark, "") for mark in sides[1::2]]
    if not all(sides) or not all(mark in TURNED for mark in sides[1::2]):
        return ""
    if len(sides) == 5 and sides[1] in RISING and sides[3] in RISING and NAME.fullmatch(sides[2]):
        return f"{'[' if sides[1] == RISING[1] else '('}{sides[0]},{sides[4]}{']' if sides[3] == RISING[1] else ')'}"
    if len(sides) != 3 or not NAME.fullmatch(sides[0]):
        return ""
    _, mark, bound = sides
    if mark in RISING:
        return f"(-\\infty,{bound}{']' if mark == RISING[1] else ')'}"
    return f"{'[' if mark == TURNED[RISING[1]] else '('}{bound},\\infty)"


def _group(text: str) -> Group | None:
    r"""Brackets around the whole text, ]1,2[ too, a bare list, (x,y)=(1,2) as x=1, y=2; None: one entry alone."""
    if re.fullmatch(r"\\emptyset|\\\{\s*\\\}", text):
        return "\\{", "\\}", []
    french = FRENCH.fullmatch(text)
    if french and french[1] + french[3] != "[]" and len(entries := split(french[2])) == 2:
        return "(" if french[1] == "]" else "[", ")" if french[3] == "[" else "]", entries
    for opening in ("\\{", "(", "["):
        if text.startswith(opening) and closes(text, 0) == len(text) - 1:
            closing = text[-2:] if text[-2:] == "\\}" else text[-1]
            return opening, closing, split(text[len(opening) : -len(closing)])
    if (lines := MATRIX.fullmatch(text)) and lines[1] in LISTS:
        rows = lines[2].strip().removesuffix("\\\\").split("\\\\")
        return "", "", [row.replace("&=", "=").strip(" ,;.") for row in rows]
    if len(entries := split(text)) > 1:
        return "", "", entries
    name, value = _named(pieces(text, RELATION))
    names, values = (_group(name), _group(value)) if TUPLE_OF_NAMES.fullmatch(name) else (None, None)
    if names and values and len(names[2]) == len(values[2]):
        return "", "", [f"{one}={other}" for one, other in zip(names[2], values[2], strict=True)]
    return None


def _groups(answer: str, truth: str) -> bool | None:
    """Tuples, sets, intervals, lists; ± is a list of both values."""
    given, wanted = _group(answer), _group(truth)
    if given is None and wanted is None and "\\pm" not in answer + truth:
        return None
    if given is None or wanted is None:
        return _one_against_group(answer, truth, given, wanted)
    entries, others = given[2], wanted[2]
    if any(map(_assignments, (entries, others))):
        return _same_assignments(entries, others)
    brackets = {given[0], wanted[0]}
    if brackets <= {"", "\\{"}:
        entries, others = _with_both_signs(entries), _with_both_signs(others)
        if len(entries) > 4 * len(others) + 8:
            return False
        return _in_any_order(*((entries, others) if brackets == {""} else (_distinct(entries), _distinct(others))))
    brackets_fit = given[:2] == wanted[:2] or brackets == {"", "("}
    return brackets_fit and len(entries) == len(others) and all(map(_same, entries, others))


def _one_against_group(answer: str, truth: str, given: Group | None, wanted: Group | None) -> bool | None:
    """(5), [5] and {5} are 5; ±5 is 5, -5."""
    opening, closing, entries = given or wanted or ("", "", [])
    if len(entries) == 1 and CLOSING.get(opening) == closing:
        return _same(entries[0], truth) if given else _same(answer, entries[0])
    sides = _with_both_signs(given[2] if given else [answer]), _with_both_signs(wanted[2] if wanted else [truth])
    return opening in ("", "\\{") and _in_any_order(*sides)


def _assignments(entries: list[str]) -> dict[str, str]:
    """Names and values of entries that all are `name=value`; empty otherwise."""
    named = [_named(pieces(entry, RELATION)) for entry in entries]
    return {tight(name): value for name, value in named} if all(name for name, _ in named) else {}


def _same_assignments(given: list[str], wanted: list[str]) -> bool:
    """x=1, y=2 against the same in any order, or against 1,2 in this order; x=1, x=2 lists values of x."""
    one, other = _assignments(given), _assignments(wanted)
    if len(one) == len(given) and len(other) == len(wanted):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    values = [[_named(pieces(entry, RELATION))[1] or entry for entry in entries] for entries in (given, wanted)]
    if len(one or other) == 1:
        return not (one and other and one.keys() != other.keys()) and _in_any_order(*values)
    return len(given) == len(wanted) and all(map(_same, *values))


def _distinct(entries: list[str]) -> list[str]:
    if len(entries) > MOST_COMPARED:
        return list({tight(entry): entry for entry in entries}.values())
    kept: list[str] = []
    for entry in entries:
        if not any(_same(entry, other) for other in kept):
            kept.append(entry)
    return kept


def _with_both_signs(entries: list[str]) -> list[str]:
    r"""An entry with \pm as two."""
    signs = (("+", "-"), ("-", "+"))
    return [
        entry.replace("\\pm", plus).replace("\\mp", minus)
        for entry in entries
        for plus, minus in (signs if "\\pm" in entry else signs[:1])
    ]


def _matrices(answer: str, truth: str) -> bool | None:
    """The same rows and columns; a determinant is no matrix."""
    if not MATRIX.search(answer) and not MATRIX.search(truth):
        return None
    given, wanted = MATRIX.fullmatch(answer), MATRIX.fullmatch(truth)
    if given is None or wanted is None or ("v" in given[1].lower()) != ("v" in wanted[1].lower()):
        return False
    one, other = (
        [split(row, re.compile("&")) for row in found[2].strip().removesuffix("\\\\").split("\\\\")]
        for found in (given, wanted)
    )
    return list(map(len, one)) == list(map(len, other)) and all(map(_same, chain(*one), chain(*other)))


def _quantities(answer: str, truth: str) -> bool:
    """Numbers and expressions, with the same unit where both have one. 50 % is 50, and .5."""
    (value, unit), (wanted, wanted_unit) = quantity(answer), quantity(truth)
    if unit and wanted_unit and unit != wanted_unit:
        return False
    if _same_value(value, wanted):
        return True
    if unit != wanted_unit and "%" in (unit, wanted_unit):
        shares = [f"({text})/100" if of == "%" else text for text, of in ((value, unit), (wanted, wanted_unit))]
        return _same_value(*shares)
    return False


def _same_value(one: str, other: str) -> bool:
    try:
        return equal(one, other)
    except Unreadable:
        return tight(one) == tight(other)
