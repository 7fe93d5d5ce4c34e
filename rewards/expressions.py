r"""The value of a mathematical expression in LaTeX: exact fractions first, floats of 120 digits where there is none.

Covered: arithmetic, fractions, mixed and repeating numbers, powers, roots, factorials, binomials, logarithms,
trigonometry with degrees, complex numbers, variables. Two expressions with variables are equal if they agree at a few
points that no identity prefers (`equal`). Not covered: sums, integrals, limits, matrices: `Unreadable`.

    \frac{2^{2024}-1}{2^{2024}}   Fraction
    \frac{\sqrt6-\sqrt2}{4}       float, equal to \sin 15^\circ
    x(x+1)                        a value at each point, equal to x^2+x

Every operation is bounded, so that no text takes long: a number has at most MOST_BITS bits.
"""

import hashlib
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from mpmath import MPContext

Number = Any
"""A Fraction, or a float of mpmath (real or complex)."""
MOST_BITS = 50_000
MOST_NESTED = 40
POINTS = 3
"""Points at which expressions with variables are compared."""
PRECISE, ROUGH = MPContext(), MPContext()
PRECISE.dps, ROUGH.dps = 120, 60
TINY = PRECISE.mpf(10) ** -50
"""Smaller values may be what rounding leaves of zero."""
CLOSE = PRECISE.mpf(10) ** -100
"""Floats that differ by less than this share are equal."""
_TOKEN = re.compile(r"\\[a-zA-Z]+|\d+\.\d*|\.\d+|\d+|[a-zA-Zα-ωΑ-Ω]|[-+*/^_!%()\[\]{}|':]")
_SKIPPED = re.compile(r"\s+|\\[ ,;:!]|~|\\(left|right|quad|qquad|displaystyle|limits|mathrm|bigl?|bigr?|Bigl?|Bigr?)(?![a-zA-Z])")
_FRACTIONS = ("\\frac", "\\dfrac", "\\tfrac", "\\cfrac")
_CIRCULAR = ("sin", "cos", "tan", "cot", "sec", "csc")
_NAMED = (*_CIRCULAR, "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "ln", "lg", "log", "exp")
_WORDS = re.compile(rf"(?<![a-zA-Z\\])({'|'.join(sorted((*_NAMED, 'sqrt', 'pi'), key=len, reverse=True))})(?![a-zA-Z])")
_ACCENTS = ("\\overline", "\\bar", "\\vec", "\\overrightarrow", "\\hat", "\\widehat", "\\tilde", "\\mathbf")
_GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau upsilon "
    "phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell"
).split()
_CLOSING = {"(": ")", "[": "]", "{": "}", "|": "|"}


class Unreadable(ValueError):
    """A text is not an expression that is read here, or has no value."""


def equal(one: str, other: str) -> bool:
    """Whether two expressions have the same value, at any value of their variables. Raises Unreadable."""
    first, second = Expression(one, 0), Expression(other, 0)
    mine, theirs = first.value, second.value
    if not first.variables and not second.variables:
        return same(mine, theirs) or _rounds(one, other, mine, theirs)
    points = range(1, POINTS + 1)
    return same(mine, theirs) and all(same(Expression(one, n).value, Expression(other, n).value) for n in points)


def proportional(one: str, other: str) -> bool:
    """Whether one expression is a constant multiple of the other, not 0. Raises Unreadable."""
    ratios = []
    for point in range(POINTS + 1):
        mine, theirs = Expression(one, point), Expression(other, point)
        if not mine.variables or mine.variables != theirs.variables or not mine.value or not theirs.value:
            return False
        ratios.append(_divide(mine.value, theirs.value))
    return all(same(ratios[0], ratio) for ratio in ratios[1:])


def same(one: Number, other: Number) -> bool:
    """Whether two values are equal: fractions exactly, floats but for rounding."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    one, other = _float(one), _float(other)
    if any(abs(each) == PRECISE.inf for each in (one, other)):
        return bool(one == other)
    return bool(abs(one - other) <= CLOSE * max(abs(one), abs(other)))


def _rounds(one: str, other: str, mine: Number, theirs: Number) -> bool:
    """Whether one is a decimal of at least six digits, and the other no decimal and equal to it but for rounding."""
    for decimal, value, exact in ((one, mine, theirs), (other, theirs, mine)):
        found = re.fullmatch(r"-?\d*\.(\d{6,})", decimal.strip())
        if found and len(found[0].lstrip("-0.").replace(".", "")) >= 6:
            decimals = other if decimal is one else one
            if not re.fullmatch(r"-?[\d.]+", decimals.strip()) and not isinstance(_float(exact), PRECISE.mpc):
                return bool(abs(_float(exact) - _float(value)) <= PRECISE.mpf(10) ** -len(found[1]) / 2)
    return False


class Expression:
    """An expression, read and evaluated in one pass. `point` chooses the values of its variables."""

    def __init__(self, text: str, point: int) -> None:
        """Raises Unreadable."""
        self.variables: set[str] = set()
        self._point = point
        self._text = _WORDS.sub(lambda word: f"\\{word[0]} ", text.replace("**", "^"))
        self.value = self._evaluated(PRECISE)
        if not isinstance(self.value, Fraction) and abs(self.value) < TINY:
            rough = self._evaluated(ROUGH)
            if abs(rough - self.value) > abs(self.value) / 2:  # it is what rounding left
                self.value = Fraction(0)

    def _evaluated(self, floats: Any) -> Number:
        self._floats, self._depth, self._in_angle, self._at = floats, 0, False, 0
        self._tokens = _tokens(self._text)
        try:
            value = self._sum()
        except (ArithmeticError, RecursionError, TypeError) as error:
            raise Unreadable(f"no value: {error}") from error
        if self._at < len(self._tokens):
            raise Unreadable(f"not understood: {self._tokens[self._at]}")
        if not isinstance(value, Fraction) and value != value:
            raise Unreadable("no value")
        return value

    # ---- grammar ---------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        """The next token if it is one of these, else ""."""
        token = self._next()
        if token and (not wanted or token in wanted):
            self._at += 1
            return token
        return ""

    def _sum(self) -> Number:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise Unreadable("nested too deeply")
        total = self._product()
        while sign := self._take("+", "-"):
            term = self._product()
            total = _add(total, term if sign == "+" else _multiply(term, Fraction(-1)))
        self._depth -= 1
        return total

    def _product(self) -> Number:
        """Factors, with or without a sign between them; a number directly after another is not a product."""
        value = self._signed()
        while True:
            if self._take("*", "\\cdot", "\\times", "\\ast"):
                value = _multiply(value, self._signed())
            elif self._take("/", "\\div", ":"):
                value = _divide(value, self._signed())
            elif self._starts_factor():
                value = _multiply(value, self._power())
            else:
                return value

    def _starts_factor(self) -> bool:
        token = self._next()
        if not token or token in ")]}+-*/^_!%':" or (token == "|" and "|" in self._open):
            return False
        if token[0] in ".0123456789":
            raise Unreadable("two numbers without a sign between them")
        return True

    @property
    def _open(self) -> list[str]:
        return self.__dict__.setdefault("_bars", [])

    def _signed(self) -> Number:
        if sign := self._take("+", "-"):
            self._depth += 1
            if self._depth > MOST_NESTED:
                raise Unreadable("nested too deeply")
            value = self._signed()
            self._depth -= 1
            return value if sign == "+" else _multiply(value, Fraction(-1))
        return self._power()

    def _power(self) -> Number:
        return self._raised(self._atom())

    def _raised(self, value: Number) -> Number:
        """With what follows an atom: !, %, degrees, an exponent."""
        while token := self._take("!", "\\%", "%", "^", "\\circ", "°"):
            if token == "!":
                value = self._factorial(value)
            elif token in ("\\%", "%"):
                value = _multiply(value, Fraction(1, 100))
            elif token == "^" and not self._is_degree():
                value = self._to(value, self._argument())
            elif self._in_angle:
                value = _multiply(value, self._floats.pi / 180)
        return value

    def _is_degree(self) -> bool:
        start = self._at
        braced = self._take("{")
        if self._take("\\circ") and (not braced or self._take("}")):
            return True
        self._at = start
        return False

    def _argument(self) -> Number:
        """What a command or ^ applies to: a group, or one character or command."""
        token = self._next()
        if token == "{":
            return self._group()
        if token.isdigit() and len(token) > 1:
            self._tokens[self._at : self._at + 1] = [token[0], token[1:]]
            return Fraction(int(self._take()))
        return self._signed() if token == "-" else self._atom(plain=True)

    def _group(self) -> Number:
        opening = self._take("(", "[", "{", "|")
        bars = self._open
        bars.append(opening)
        value = self._sum()
        bars.pop()
        if not self._take(_CLOSING[opening]):
            raise Unreadable(f"{opening} is not closed")
        return abs(value) if opening == "|" else value

    def _atom(self, plain: bool = False) -> Number:
        token = self._next()
        if token in ("(", "[", "{", "|"):
            return self._group()
        self._take()
        if token[:1] in (*".0123456789",) and token:
            return token and self._number(token, plain)
        name = token.removeprefix("\\")
        if token in _FRACTIONS:
            above = self._argument()
            return _divide(above, self._argument())
        if token == "\\sqrt":
            return self._root()
        if token in ("\\binom", "\\dbinom", "\\tbinom"):
            above = self._argument()
            return self._choose(above, self._argument())
        if token.startswith("\\") and name in _NAMED:
            return self._function(name)
        if token == "\\pi" or token == "π":
            return self._floats.pi + 0
        if token in ("\\infty", "∞"):
            return self._floats.inf
        if token in _ACCENTS:
            return self._variable(token + self._raw_argument())
        if token in ("C", "A", "P") and self._next() in ("_", "^"):
            return self._combinations(token)
        if token and (len(token) == 1 and token.isalpha() or name in _GREEK):
            if self._take("_"):
                token += self._raw_argument()
            if token == "e":
                return self._floats.e + 0
            return self._floats.mpc(0, 1) if token == "i" else self._variable(token)
        raise Unreadable(f"not understood: {token or 'the end'}")

    def _number(self, digits: str, plain: bool) -> Number:
        """A number, perhaps mixed: 3\\frac12 and 3 1/2 are 3.5. plain: as an argument, which is never mixed."""
        value = Fraction(digits if digits != "." else "0")
        if self._next() == "_" and not plain:
            raise Unreadable("a number with a base")
        if plain or not digits.isdigit():
            return value
        if self._next() in _FRACTIONS:
            rest = self._tokens[self._at + 1 :]
            if re.fullmatch(r"(\d\d|\{ \d+ \} \{ \d+ \}|\d \d|\{ \d+ \} \d|\d \{ \d+ \})( .*)?", " ".join(rest)):
                return _add(value, self._atom())
        mixed = self._tokens[self._at : self._at + 3]
        if len(mixed) == 3 and mixed[0].isdigit() and mixed[1] == "/" and mixed[2].isdigit():
            self._at += 3
            return value + Fraction(int(mixed[0]), int(mixed[2]))
        return value

    def _root(self) -> Number:
        degree: Number = Fraction(2)
        if self._next() == "[":
            degree = self._group()
        token = self._next()
        value = Fraction(self._take()) if token and token[0] in "0123456789" else self._argument()
        if isinstance(value, Fraction) and value < 0 and isinstance(degree, Fraction) and degree % 2 == 1:
            return _multiply(self._to(-value, 1 / degree), Fraction(-1))
        return self._to(value, _divide(Fraction(1), degree))

    def _function(self, name: str) -> Number:
        base: Number | None = {"ln": self._floats.e + 0, "lg": Fraction(10)}.get(name)
        exponent: Number = Fraction(1)
        inverse = False
        while token := self._take("_", "^"):
            if token == "_":
                base = self._argument()
            else:
                exponent = self._argument()
                inverse = name in _CIRCULAR and exponent == -1
        outer, self._in_angle = self._in_angle, name in _CIRCULAR
        if self._next() in ("(", "{", "["):
            value = self._raised(self._group())
        else:
            value = self._power()
            while self._starts_factor() and self._next().removeprefix("\\") not in _NAMED:
                value = _multiply(value, self._power())
        self._in_angle = outer
        if name in ("ln", "lg", "log"):
            base = self._variable("\\log") if base is None else base
            if isinstance(base, Fraction) and isinstance(value, Fraction) and (exact := _exact_log(value, base)):
                result: Number = exact
            else:
                result = _divide(self._floats.ln(self._float(value)), self._floats.ln(self._float(base)))
        elif name == "exp":
            result = self._to(self._floats.e + 0, value)
        else:
            if abs(value) > 10**50:
                raise Unreadable("an angle too large")
            result = getattr(self._floats, "a" + name if inverse else name.replace("arc", "a"))(self._float(value))
        return result if exponent == 1 or inverse else self._to(result, exponent)

    def _combinations(self, token: str) -> Number:
        r"""C_{10}^{3} and permutations A_{10}^{3}; C_1 is a variable."""
        start = self._at
        above: Number | None = None
        below: Number | None = None
        while mark := self._take("_", "^"):
            if mark == "_":
                below = self._argument()
            else:
                above = self._argument()
        if above is None or below is None or not isinstance(above, Fraction) or not isinstance(below, Fraction):
            self._at = start
            return self._variable(token + (self._raw_argument() if self._take("_") else ""))
        chosen = self._choose(below, above)
        return chosen if token == "C" else _multiply(chosen, self._factorial(above))

    def _raw_argument(self) -> str:
        """The argument as text, for the name of a variable."""
        if not self._take("{"):
            return self._take()
        start = self._at
        while self._next() not in ("}", ""):
            self._at += 1
        return "".join(self._tokens[start : self._at]) + self._take("}")[:0]

    def _variable(self, name: str) -> Number:
        self.variables.add(name)
        number = int.from_bytes(hashlib.sha256(f"{name} {self._point}".encode()).digest()[:4], "big")
        sign = -1 if self._point == 1 else 1
        return Fraction(sign * (number % 9000 + 1009), 3001)

    # ---- operations ------------------------------------------------------------------------------------------------

    def _float(self, value: Number) -> Number:
        return _float(value, self._floats)

    def _to(self, base: Number, exponent: Number) -> Number:
        if isinstance(base, Fraction) and isinstance(exponent, Fraction):
            if exponent.denominator == 1:
                bits = max(base.numerator.bit_length(), base.denominator.bit_length())
                if abs(exponent) * (bits - (abs(base) == 1)) > MOST_BITS:
                    raise Unreadable("a power too large")
                return base ** int(exponent)
            if (root := _exact_root(base, exponent.denominator)) is not None:
                return self._to(root, Fraction(exponent.numerator))
        power, exponent = self._float(base), self._float(exponent)
        if not power:
            return Fraction(0)
        if abs(exponent) * (1 + abs(self._floats.ln(power))) > 10**6:
            raise Unreadable("a power too large")
        return power**exponent

    def _factorial(self, value: Number) -> Number:
        if not isinstance(value, Fraction) or value.denominator > 1 or value < 0:
            return self._floats.gamma(self._float(value) + 1)
        if value > 4000:
            raise Unreadable("a factorial too large")
        return Fraction(math.factorial(int(value)))

    def _choose(self, above: Number, below: Number) -> Number:
        whole = all(isinstance(each, Fraction) and each.denominator == 1 for each in (above, below))
        if not whole:
            return self._floats.binomial(self._float(above), self._float(below))
        if not 0 <= below <= above or above > MOST_BITS or min(below, above - below) > 4000:
            raise Unreadable("a binomial coefficient out of range")
        return Fraction(math.comb(int(above), int(below)))


def _tokens(text: str) -> list[str]:
    tokens = []
    at = 0
    while at < len(text):
        if skipped := _SKIPPED.match(text, at):
            at = skipped.end()
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            if text.startswith("\\%", at):
                tokens.append("\\%")
                at += 2
                continue
            if text[at] in "°∞":
                tokens.append(text[at])
                at += 1
                continue
            raise Unreadable(f"not understood: {text[at:]:.20}")
        tokens.append(found[0])
        at = found.end()
    if not tokens:
        raise Unreadable("nothing")
    return _with_choose(tokens)


def _with_choose(tokens: list[str]) -> list[str]:
    r"""{n \choose k} as \binom{n}{k}."""
    while "\\choose" in tokens:
        at = tokens.index("\\choose")
        depth, start = 0, at - 1
        while start >= 0 and not (tokens[start] == "{" and depth == 0):
            depth += {"}": 1, "{": -1}.get(tokens[start], 0)
            start -= 1
        if start < 0:
            tokens, start, at = ["{", *tokens, "}"], 0, at + 1
        tokens = [*tokens[:start], "\\binom", *tokens[start:at], "}", "{", *tokens[at + 1 :]]
    return tokens


def _float(value: Number, floats: Any = PRECISE) -> Number:
    return floats.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else floats.convert(value)


def _both(operation: Callable[[Number, Number], Number]) -> Callable[[Number, Number], Number]:
    """An operation on two fractions, or on floats where one is a float."""

    def apply(one: Number, other: Number) -> Number:
        if not isinstance(one, Fraction) and isinstance(other, Fraction):
            other = _float(other, one.context)
        elif isinstance(one, Fraction) and not isinstance(other, Fraction):
            one = _float(one, other.context)
        result = operation(one, other)
        if isinstance(result, Fraction) and result.numerator.bit_length() > 4 * MOST_BITS:
            raise Unreadable("a number too large")
        return result

    return apply


_add = _both(lambda one, other: one + other)
_multiply = _both(lambda one, other: one * other)
_divide = _both(lambda one, other: one / other)


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The root if it is a fraction too."""
    if value < 0 or degree > 64:
        return None
    parts = []
    for part in (value.numerator, value.denominator):
        root = _whole_root(part, degree)
        if root**degree != part:
            return None
        parts.append(root)
    return Fraction(*parts)


def _whole_root(value: int, degree: int) -> int:
    """The largest whole number whose power is at most `value` (Newton's method)."""
    if degree == 2 or value < 2:
        return math.isqrt(value) if degree == 2 else value
    root = 1 << -(-value.bit_length() // degree)
    while True:
        smaller = ((degree - 1) * root + value // root ** (degree - 1)) // degree
        if smaller >= root:
            return root
        root = smaller


def _exact_log(value: Fraction, base: Fraction) -> Fraction | None:
    """log_base(value) where it is whole."""
    if value <= 0 or base <= 0 or base == 1:
        return None
    guess = round(float(PRECISE.ln(_float(value)) / PRECISE.ln(_float(base))))
    return Fraction(guess) if abs(guess) < 4000 and base**guess == value else None
