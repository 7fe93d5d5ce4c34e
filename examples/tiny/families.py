"""The function families of the generated coding tasks: one table with text, meaning, slip and inputs of each.

A family has lines of a program, the same function as a Python callable, the slip that is usual in it and what that
comes to, and inputs that tell the two apart. Nothing here executes text: expected values come from the callables, and a
test runs the texts through the sandbox to show that they agree. Not covered: problems, tests, examples (programs.py,
skills.py).

Level 1 is one expression over numbers, 2 one expression over lists and words, 3 a loop, 4 a loop with a state or a
compound condition.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

Function = Callable[..., Any]
"""Called with the constant first, then the arguments of the function to be written."""
Inputs = Callable[[random.Random, int], tuple[Any, ...]]
"""Draws one tuple of arguments; many lie near the constant."""


@dataclass(frozen=True)
class Family:
    """A function with a constant; `{k}` stands for it in description, lines and slip."""

    name: str
    level: int
    arguments: str
    description: str
    lines: tuple[str, ...]
    function: Function
    slip: tuple[str, str]
    """What stands in the lines, once, and what a slip writes there: plausible, and right for some inputs only."""
    slipped: Function
    inputs: Inputs
    tells: tuple[Any, ...] | None = None
    """Arguments whose value states the constant, of a family whose description keeps it secret: that is the last test.
    Values for `inputs` are the same whatever the constant, and a slip fails at the first of them."""

    @property
    def slipped_lines(self) -> tuple[str, ...]:
        return tuple(line.replace(*self.slip) for line in self.lines)


def _around(rng: random.Random, k: int) -> int:
    return rng.choice((k, k - 1, k + 1, rng.randint(-9, 9), rng.randint(-9, 9)))


def _number(rng: random.Random, k: int) -> tuple[int]:
    return (_around(rng, k),)


def _natural(rng: random.Random, k: int) -> tuple[int]:
    return (rng.choice((k, 2 * k, 3 * k, rng.randint(0, 30), rng.randint(0, 30))),)


def _two_numbers(rng: random.Random, k: int) -> tuple[int, int]:
    return rng.randint(-9, 9), rng.choice((0, rng.randint(-9, 9)))


def _items(rng: random.Random, k: int) -> tuple[list[int]]:
    return ([_around(rng, k) for _ in range(rng.randint(1, 5))],)


def _long_items(rng: random.Random, k: int) -> tuple[list[int]]:
    return ([rng.randint(0, 9) for _ in range(rng.randint(max(1, k - 3), k + 2))],)


def _few_values(rng: random.Random, k: int) -> tuple[list[int]]:
    values = [k, k - 1, k + 1, rng.randint(0, 9)]
    return ([rng.choice(values) for _ in range(rng.randint(2, 5))],)


def _word(rng: random.Random, k: int) -> tuple[str]:
    half = "".join(rng.choice("ab") for _ in range(rng.randint(1, max(2, k // 2 + 1))))
    return (half + rng.choice((half[::-1], half[-2::-1], rng.choice("abc"))),)


def _three_items(rng: random.Random, k: int) -> tuple[list[int]]:
    return ([rng.randint(-3, 3) for _ in range(3)],)


def _best_below(k: int, s: list[int], choose: Function) -> int | None:
    return choose((x for x in s if x < k), default=None)


def _product(k: int, s: list[int]) -> int:
    for x in s:
        k *= x
    return k


FAMILIES: tuple[Family, ...] = (
    Family("distance", 1, "x", "returns the distance of x from {k}", ("return abs(x - {k})",),
           lambda k, x: abs(x - k), ("abs(x - {k})", "x - {k}"), lambda k, x: x - k, _number),
    Family("at_least", 1, "x", "tells whether x is at least {k}", ("return x >= {k}",),
           lambda k, x: x >= k, (">=", ">"), lambda k, x: x > k, _number),
    Family("cap", 1, "x", "limits x to at most {k}", ("return min(x, {k})",),
           lambda k, x: min(x, k), ("min(", "max("), lambda k, x: max(x, k), _number),
    Family("whole", 1, "x", "returns how often {k} fits into x", ("return x // {k}",),
           lambda k, x: x // k, ("//", "/"), lambda k, x: x / k, _natural),
    Family("affine", 1, "a, b", "returns {k} times a plus b", ("return {k} * a + b",),
           lambda k, a, b: k * a + b, ("a + b", "(a + b)"), lambda k, a, b: k * (a + b), _two_numbers),
    Family("divisible", 1, "x", "tells whether x is divisible by {k}", ("return x % {k} == 0",),
           lambda k, x: x % k == 0, ("%", "//"), lambda k, x: x // k == 0, _natural),
    Family("first", 2, "s", "returns the first {k} items of s", ("return s[:{k}]",),
           lambda k, s: s[:k], ("{k}]", "{k} - 1]"), lambda k, s: s[:k - 1], _long_items),
    Family("last", 2, "s", "returns the last {k} items of s", ("return s[-{k}:]",),
           lambda k, s: s[-k:], ("-{k}:", ":{k}"), lambda k, s: s[:k], _long_items),
    Family("mirror", 2, "s", "reverses s and repeats it {k} times", ("return s[::-1] * {k}",),
           lambda k, s: s[::-1] * k, ("[::-1]", ""), lambda k, s: s * k, _word),
    Family("palindrome", 2, "s", "tells whether s is a palindrome longer than {k}",
           ("return s == s[::-1] and len(s) > {k}",), lambda k, s: s == s[::-1] and len(s) > k,
           (" and ", " or "), lambda k, s: s == s[::-1] or len(s) > k, _word),
    Family("occurrences", 2, "s", "counts how often {k} occurs in s", ("return s.count({k})",),
           lambda k, s: s.count(k), ("s.count({k})", "{k} in s"), lambda k, s: k in s, _few_values),
    Family("largest", 2, "s", "returns the larger of {k} and the sum of s", ("return max({k}, sum(s))",),
           lambda k, s: max(k, sum(s)), ("sum(s)", "*s"), lambda k, s: max(k, *s), _items),
    Family("count", 3, "s", "counts the items of s that are at least {k}",
           ("n = 0", "for x in s:", "    if x >= {k}:", "        n += 1", "return n"),
           lambda k, s: sum(x >= k for x in s), (">=", ">"), lambda k, s: sum(x > k for x in s), _items),
    Family("keep", 3, "s", "keeps the items of s that are at most {k}",
           ("r = []", "for x in s:", "    if x <= {k}:", "        r.append(x)", "return r"),
           lambda k, s: [x for x in s if x <= k], ("<=", "<"), lambda k, s: [x for x in s if x < k], _items),
    Family("scaled_sum", 3, "s", "returns the sum of the items of s times {k}",
           ("t = 0", "for x in s:", "    t += x * {k}", "return t"),
           lambda k, s: sum(s) * k, ("+=", "="), lambda k, s: s[-1] * k, _items),
    Family("find", 3, "s", "returns the place of the first item of s above {k} or -1",
           ("for i, x in enumerate(s):", "    if x > {k}:", "        return i", "return -1"),
           lambda k, s: next((i for i, x in enumerate(s) if x > k), -1),
           ("return i", "return x"), lambda k, s: next((x for x in s if x > k), -1), _items),
    Family("product", 3, "s", "returns the product of {k} and all items of s",
           ("t = {k}", "for x in s:", "    t *= x", "return t"),
           _product, ("t = {k}", "t = 1"), lambda k, s: _product(1, s), _three_items),
    Family("maxima", 4, "s", "returns the running maxima of s from {k} up",
           ("t = {k}", "r = []", "for x in s:", "    t = max(t, x)", "    r.append(t)", "return r"),
           lambda k, s: list(accumulate(s, max, initial=k))[1:],
           ("t = {k}", "t = s[0]"), lambda k, s: list(accumulate(s, max)), _items),
    Family("evens", 4, "s", "adds {k} to the even items of s and drops the others",
           ("r = []", "for x in s:", "    if x % 2 == 0:", "        r.append(x + {k})", "return r"),
           lambda k, s: [x + k for x in s if x % 2 == 0],
           ("x + {k}", "x"), lambda k, s: [x for x in s if x % 2 == 0], _items),
    Family("best_below", 4, "s", "returns the largest item of s below {k} or None",
           ("r = None", "for x in s:", "    if x < {k} and (r is None or x > r):", "        r = x", "return r"),
           lambda k, s: _best_below(k, s, max), ("x > r", "x < r"), lambda k, s: _best_below(k, s, min), _items),
    Family("distinct", 4, "s", "keeps the items of s that are at least {k} without repeats",
           ("r = []", "for x in s:", "    if x >= {k} and x not in r:", "        r.append(x)", "return r"),
           lambda k, s: list(dict.fromkeys(x for x in s if x >= k)),
           (" and x not in r", ""), lambda k, s: [x for x in s if x >= k], _few_values),
    Family("even_places", 4, "s", "sums the items of s at even places that are at least {k}",
           ("t = 0", "for i, x in enumerate(s):", "    if i % 2 == 0 and x >= {k}:", "        t += x", "return t"),
           lambda k, s: sum(x for x in s[::2] if x >= k),
           ("i % 2 == 0 and ", ""), lambda k, s: sum(x for x in s if x >= k), _items),
)  # fmt: skip
BY_NAME = {family.name: family for family in FAMILIES}


def _secret(
    name: str, inputs: Inputs, tells: tuple[Any, ...],
    slip: tuple[str, str] | None = None, slipped: Function | None = None,
) -> Family:  # fmt: skip
    """A family that keeps its constant secret, and where the usual slip depends on it makes another."""
    family = BY_NAME[name]
    return replace(
        family, description=family.description.replace("{k}", "a secret number"), inputs=inputs, tells=tells,
        slip=slip or family.slip, slipped=slipped or family.slipped,
    )  # fmt: skip


def _nothing_times(rng: random.Random, k: int) -> tuple[int, int]:
    return 0, rng.choice((-1, 1)) * rng.randint(1, 9)


def _large_items(rng: random.Random, k: int) -> tuple[list[int]]:
    return ([rng.randint(11, 19) for _ in range(rng.randint(2, 3))],)


def _odd_items(rng: random.Random, k: int) -> tuple[list[int]]:
    return ([rng.randrange(1, 10, 2) for _ in range(rng.randint(2, 4))],)


def _opposites(rng: random.Random, k: int) -> tuple[list[int]]:
    number = rng.randint(1, 9)
    return ([-number, number] * rng.randint(1, 2),)


def _with_a_zero(rng: random.Random, k: int) -> tuple[list[int]]:
    return (rng.sample([0, rng.randint(1, 9), rng.randint(1, 9)], 3),)


SECRET: tuple[Family, ...] = (
    _secret("cap", lambda rng, k: (rng.randint(-9, 0),), (20,)),
    Family("floor", 1, "x", "raises x to at least a secret number", ("return max(x, {k})",),
           lambda k, x: max(x, k), ("max(", "min("), lambda k, x: min(x, k),
           lambda rng, k: (rng.randint(11, 40),), (0,)),
    _secret("affine", _nothing_times, (1, 0)),
    _secret("largest", _large_items, ([0],)),
    _secret("scaled_sum", _opposites, ([1],)),
    _secret("product", _with_a_zero, ([1],), ("*=", "+="), lambda k, s: k + sum(s)),
    _secret("maxima", _large_items, ([0],), ("max(", "min("), lambda k, s: list(accumulate(s, min, initial=k))[1:]),
    _secret("evens", _odd_items, ([0],), ("== 0", "== 1"), lambda k, s: [x + k for x in s if x % 2 == 1]),
)  # fmt: skip
"""Families that do not say their constant: it can be guessed, or read off the one test that a guess fails."""
