r"""The value of a mathematical expression: exact fractions first, floats of 120 digits where there is none.

Covered: arithmetic, fractions, mixed numbers, powers, roots, factorials, binomials, logarithms, trigonometry with
degrees, complex numbers, variables. Expressions with variables are equal if they agree at points that no identity
prefers. Not covered: sums, integrals, limits, matrices (`Unreadable`); spellings (rewards/latex.py).

    \frac{2^{2024}-1}{2^{2024}}   a Fraction
    \frac{\sqrt6-\sqrt2}{4}       a float, equal to \sin 15^\circ
    x(x+1)                        a value at each point, equal to x^2+x

Every operation is bounded, so that no text takes long: a number has at most some ten thousand digits.
"""

import functools
import hashlib
import math
import re
from collections.abc import Callable
from fractions import Fraction
from operator import add, mul, truediv
from typing import Any

from mpmath import MPContext

from rewards.latex import END

Number = Any
"""A Fraction, or a float of mpmath (real or complex)."""
MOST_BITS = 50_000
"""Of a power; products may have four times as many."""
LARGEST_FACTORIAL = 4000
POINTS = 3
"""Points at which expressions with variables are compared."""
FLOATS = MPContext()
FLOATS.dps = 120
TINY = FLOATS.mpf(10) ** -90
"""A smaller float is what rounding leaves of zero."""
CLOSE = FLOATS.mpf(10) ** -100
"""Floats that differ by a smaller share are equal."""
DECIMALS = 6
"""Digits from which on a decimal may stand for what it rounds."""
TOKEN = re.compile(r"\\[a-zA-Z]+|\d+\.\d*|\.\d+|\d+|[a-zA-Zα-ωΑ-Ω]|[-+*/^_!%()\[\]{}|':]|(\S)")
"""What the group catches is not a token."""
CIRCULAR = ("sin", "cos", "tan", "cot", "sec", "csc")
FUNCTIONS = (*CIRCULAR, "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "ln", "lg", "log", "exp")
BARE = re.compile(rf"(?<![a-zA-Z\\])({'|'.join((*FUNCTIONS[::-1], 'sqrt', 'pi'))}){END}")
"""Functions that are written without a backslash."""
ACCENTS = ("\\overline", "\\bar", "\\vec", "\\hat", "\\widehat", "\\tilde", "\\mathbf")
GREEK = re.compile(
    r"\\(alpha|beta|gamma|delta|(var)?epsilon|zeta|eta|(var)?theta|iota|kappa|lambda|mu|nu|xi|rho|sigma|tau|upsilon|"
    r"(var)?phi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega|ell)"
)
BRACKETS = {"(": ")", "[": "]", "{": "}", "|": "|"}


class Unreadable(ValueError):
    """A text is not an expression that is read here, or has no value."""


def equal(one: str, other: str) -> bool:
    """Whether two expressions have the same value, whatever their variables. Raises Unreadable."""
    mine, theirs = _read(one, 0), _read(other, 0)
    if not mine.variables and not theirs.variables:
        return same(mine.value, theirs.value) or _rounds(one, mine.value, other, theirs.value)
    return all(same(_read(one, point).value, _read(other, point).value) for point in range(POINTS + 1))


def proportional(one: str, other: str) -> bool:
    """Whether one expression with variables is a constant multiple of the other, not 0. Raises Unreadable."""
    ratios = []
    for point in range(POINTS + 1):
        mine, theirs = _read(one, point), _read(other, point)
        if not mine.variables or mine.variables != theirs.variables or not mine.value or not theirs.value:
            return False
        ratios.append(_divide(mine.value, theirs.value))
    return all(same(ratios[0], ratio) for ratio in ratios[1:])


@functools.lru_cache(maxsize=256)
def _read(text: str, point: int) -> "Expression":
    """A truth is read once for all answers to it, and an entry of a list once for all that it is compared with."""
    return Expression(text, point)


def same(one: Number, other: Number) -> bool:
    """Whether two values are equal: fractions exactly, floats but for rounding."""
    if isinstance(one, Fraction) and isinstance(other, Fraction):
        return one == other
    one, other = _float(one), _float(other)
    if FLOATS.inf in (abs(one), abs(other)):
        return bool(one == other)
    return bool(abs(one - other) <= CLOSE * max(abs(one), abs(other)))


def _rounds(one: str, mine: Number, other: str, theirs: Number) -> bool:
    """Whether one is a decimal of at least DECIMALS digits, and the other, which is none, rounds to it."""
    for text, value, exact_text, exact in ((one, mine, other, theirs), (other, theirs, one, mine)):
        found = re.fullmatch(r"-?\d*\.(\d+)", text.strip())
        if found is None or min(len(found[1]), len(found[0].lstrip("-0.").replace(".", ""))) < DECIMALS:
            continue
        if not re.fullmatch(r"-?[\d.]+", exact_text.strip()):
            return bool(abs(_float(exact) - _float(value)) <= FLOATS.mpf(10) ** -len(found[1]) / 2)
    return False


class Expression:
    """An expression, evaluated while it is read.

    Grammar: sum → product (± product)*; product → signed (· signed)*; signed → ± signed | power; power → atom (! | % |
    degrees | ^ argument)*; an argument is a group in braces or one character.
    """

    def __init__(self, text: str, point: int) -> None:
        """point: chooses the values of variables. Raises Unreadable."""
        self.variables: set[str] = set()
        self._point = point
        self._tokens = _tokens(BARE.sub(lambda word: f"\\{word[0]} ", text))
        self._at, self._in_angle = 0, False
        self._open: list[str] = []
        try:
            value = self._sum()
        except (ArithmeticError, RecursionError, TypeError) as error:
            raise Unreadable(f"no value: {error}") from error
        if self._at < len(self._tokens) or value != value:
            raise Unreadable(f"not understood: {self._next() or 'no number'}")
        self.value = Fraction(0) if not isinstance(value, Fraction) and abs(value) < TINY else value

    # ---- grammar ---------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        """The next token if it is one of these (or any), else ""."""
        token = self._next()
        if wanted and token not in wanted:
            return ""
        self._at += 1
        return token

    def _sum(self) -> Number:
        total = self._product()
        while sign := self._take("+", "-"):
            term = self._product()
            total = _add(total, term if sign == "+" else -term)
        return total

    def _product(self) -> Number:
        value = self._signed()
        while True:
            if self._take("*", "\\cdot", "\\times"):
                value = _multiply(value, self._signed())
            elif self._take("/", "\\div", ":"):
                value = _divide(value, self._signed())
            elif self._starts_factor():
                value = _multiply(value, self._power())
            else:
                return value

    def _starts_factor(self) -> bool:
        """Whether a factor follows without a sign. A number directly after another is not a product."""
        token = self._next()
        if not token or token in ")]}+-*/^_!%':" or (token == "|" and "|" in self._open):
            return False
        if token[0] in ".0123456789" and self._tokens[self._at - 1] != "!":
            raise Unreadable("two numbers without a sign between them")
        return True

    def _signed(self) -> Number:
        signs = 0
        while sign := self._take("+", "-"):
            signs += sign == "-"
        value = self._power()
        return -value if signs % 2 else value

    def _power(self) -> Number:
        return self._raise(self._atom())

    def _raise(self, value: Number) -> Number:
        """With what follows an atom: !, %, degrees, an exponent."""
        while token := self._take("!", "%", "^"):
            if token == "!":
                value = self._factorial(value)
            elif token == "%":
                value = _divide(value, Fraction(100))
            elif not self._take("\\circ"):
                value = self._to(value, self._argument())
            elif self._in_angle:
                value = _multiply(value, FLOATS.pi / 180)
        return value

    def _argument(self) -> Number:
        """What a command or ^ applies to: a group in braces, or one character or command."""
        token = self._next()
        if token.isdigit():
            self._tokens[self._at : self._at + 1] = list(token)
            return Fraction(self._take())
        return self._signed() if token == "-" else self._atom()

    def _group(self) -> Number:
        opening = self._take()
        self._open.append(opening)
        value = self._sum()
        self._open.pop()
        if not self._take(BRACKETS[opening]):
            raise Unreadable(f"{opening} is not closed")
        return abs(value) if opening == "|" else value

    def _atom(self) -> Number:
        if self._next() in BRACKETS:
            return self._group()
        token = self._take()
        if token[:1].isdigit() or (token[:1] == "." and len(token) > 1):
            return self._number(token)
        if token == "\\frac":
            above = self._argument()
            return _divide(above, self._argument())
        if token == "\\sqrt":
            return self._root()
        if token == "\\binom":
            above = self._argument()
            return self._choose(above, self._argument())
        if token.removeprefix("\\") in FUNCTIONS:
            return self._function(token.removeprefix("\\"))
        if token in ("\\pi", "\\infty"):
            return +FLOATS.pi if token == "\\pi" else FLOATS.inf
        if token in ACCENTS:
            return self._variable(token + self._name())
        if token in ("C", "A", "P") and (chosen := self._combinations(token)) is not None:
            return chosen
        if not token or not (token.isalpha() or GREEK.fullmatch(token)):
            raise Unreadable(f"not understood: {token or 'the end'}")
        name = token + (f"_{self._name()}" if self._take("_") else "")
        constants = {"e": +FLOATS.e, "i": FLOATS.mpc(0, 1)}
        return constants[name] if name in constants else self._variable(name)

    def _number(self, digits: str) -> Number:
        r"""A number, perhaps mixed: 3\frac12 and 3 1/2 are 3.5."""
        if self._next() == "_":
            raise Unreadable("a number with a base")
        rest = " ".join(self._tokens[self._at : self._at + 7])
        value = Fraction(digits)
        if digits.isdigit() and re.match(r"\\frac (\d\d|\{ \d+ \}|\d)( \d| \{ \d+ \}|(?<=\d\d))", rest):
            return value + self._atom()
        if digits.isdigit() and (mixed := re.match(r"(\d+) / (\d+)", rest)):
            self._at += 3
            return value + Fraction(int(mixed[1]), int(mixed[2]))
        return value

    def _root(self) -> Number:
        degree = self._group() if self._next() == "[" else Fraction(2)
        number = self._next()
        value = Fraction(self._take()) if number[:1].isdigit() else self._argument()  # \sqrt13 is meant as of 13
        return self._to(value, _divide(Fraction(1), degree))

    def _function(self, name: str) -> Number:
        base: Number | None = {"ln": +FLOATS.e, "lg": Fraction(10)}.get(name)
        exponent: Number = Fraction(1)
        while token := self._take("_", "^"):
            if token == "_":
                base = self._argument()
            else:
                exponent = self._argument()
        outer, self._in_angle = self._in_angle, name in CIRCULAR
        if self._next() in BRACKETS:
            value = self._raise(self._group())
        else:
            value = self._power()
            while self._starts_factor() and self._next().removeprefix("\\") not in FUNCTIONS:
                value = _multiply(value, self._power())
        self._in_angle = outer
        if name in CIRCULAR and exponent == -1:
            return self._call(f"a{name}", value)
        if name in ("ln", "lg", "log"):  # what \log means without a base is not known: a variable
            base = self._variable("\\log") if base is None else base
            result = _divide(FLOATS.ln(_float(value)), FLOATS.ln(_float(base)))
        else:
            result = self._call(name.replace("arc", "a"), value)
        return self._to(result, exponent)

    def _call(self, name: str, value: Number) -> Number:
        if abs(value) > (10**5 if name in ("exp", "sinh", "cosh", "tanh") else 10**50):
            raise Unreadable("an argument too large")
        return getattr(FLOATS, name)(_float(value))

    def _combinations(self, token: str) -> Number | None:
        r"""C_{10}^{3}, and permutations A_{10}^{3}; None where it is only a letter."""
        start = self._at
        sides: dict[str, Number] = {}
        while mark := self._take("_", "^"):
            sides[mark] = self._argument()
        if len(sides) < 2 or not all(isinstance(side, Fraction) for side in sides.values()):
            self._at = start
            return None
        chosen = self._choose(sides["_"], sides["^"])
        return chosen if token == "C" else _multiply(chosen, self._factorial(sides["^"]))

    def _name(self) -> str:
        """An argument as text, for the name of a variable."""
        if not self._take("{"):
            return self._take()
        name = ""
        while (token := self._take()) not in ("}", ""):
            name += token
        return name

    def _variable(self, name: str) -> Number:
        """A value that depends on name and point alone: a fraction between 1/3 and 3.4, at one point negative."""
        self.variables.add(name)
        number = int.from_bytes(hashlib.sha256(f"{name} {self._point}".encode()).digest()[:4], "big")
        return Fraction((-1 if self._point == 1 else 1) * (number % 9000 + 1009), 3001)

    # ---- operations ------------------------------------------------------------------------------------------------

    def _to(self, base: Number, exponent: Number) -> Number:
        if isinstance(base, Fraction) and isinstance(exponent, Fraction):
            if base < 0 and exponent.denominator > 1 and exponent.denominator % 2:  # the real root
                size = self._to(-base, exponent)
                return -size if exponent.numerator % 2 else size
            if exponent.denominator == 1:
                bits = max(base.numerator.bit_length(), base.denominator.bit_length())
                if abs(exponent.numerator) * (bits - (abs(base) == 1)) > MOST_BITS:
                    raise Unreadable("a power too large")
                return base**exponent.numerator
        if not base and exponent > 0:
            return Fraction(0)
        power, exponent = _float(base), _float(exponent)
        if abs(exponent) * (1 + abs(FLOATS.ln(power))) > 10**6:
            raise Unreadable("a power too large")
        return power**exponent

    def _factorial(self, value: Number) -> Number:
        if not isinstance(value, Fraction) or value.denominator > 1 or value < 0:
            return FLOATS.gamma(_float(value) + 1)
        if value > LARGEST_FACTORIAL:
            raise Unreadable("a factorial too large")
        return Fraction(math.factorial(int(value)))

    def _choose(self, above: Number, below: Number) -> Number:
        if not all(isinstance(each, Fraction) and each.denominator == 1 for each in (above, below)):
            return FLOATS.binomial(_float(above), _float(below))
        if not 0 <= below <= above or above > MOST_BITS or min(below, above - below) > LARGEST_FACTORIAL:
            raise Unreadable("a binomial coefficient out of range")
        return Fraction(math.comb(int(above), int(below)))


def _tokens(text: str) -> list[str]:
    found = list(TOKEN.finditer(text))
    if other := next((token[0] for token in found if token[1]), ""):
        raise Unreadable(f"not understood: {other}")
    return [token[0] for token in found if token[0] != "\\mathrm"]


def _float(value: Number) -> Number:
    return FLOATS.mpf(value.numerator) / value.denominator if isinstance(value, Fraction) else value


def _on_both(operation: Callable[[Number, Number], Number], one: Number, other: Number) -> Number:
    """An operation on two fractions, or on floats where one is a float."""
    if isinstance(one, Fraction) != isinstance(other, Fraction):
        one, other = _float(one), _float(other)
    result = operation(one, other)
    if isinstance(result, Fraction) and result.numerator.bit_length() > 4 * MOST_BITS:
        raise Unreadable("a number too large")
    return result


_add, _multiply, _divide = (functools.partial(_on_both, each) for each in (add, mul, truediv))
