"""The names that a test may use and still run apart from its program: modules, functions, types and methods of data."""

import builtins
import cmath
import collections
import datetime
import decimal
import fractions
import importlib
import math
import string
import sys


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


MODULES = words(
    """
    array bisect cmath collections copy datetime decimal fractions functools heapq itertools json math numbers
    operator random re statistics string sys textwrap typing unicodedata
    """
)
"""What a test may import and still run apart; one that no text binds is still taken for that module, unless called."""

SYS = frozenset(("maxsize", "float_info", "getsizeof", "byteorder", "maxunicode"))
DATA_OF_MODULES = frozenset(  # constants, and math's functions: they cross by name
    f"{module.__name__}.{name}"
    for module in (cmath, math, string, sys)
    for name, value in vars(module).items()
    if module is math or not callable(value)
)
# What changes state that the program would see too, or makes a class.
TOGETHER_ATTRIBUTES = words(
    """
    seed setstate getcontext setcontext localcontext namedtuple NamedTuple lru_cache cache
    """
)
LOCAL_RESULTS = words(
    """
    partial cmp_to_key match search fullmatch compile itemgetter attrgetter methodcaller Random SystemRandom
    ChainMap UserDict UserList Template Formatter
    """
)
ITERATOR_FUNCTIONS = frozenset(("enumerate", "filter", "iter", "map", "reversed", "zip"))
PLAIN_TYPES = words(
    """
    bool bytearray bytes complex dict float frozenset int list range set str tuple
    """
)
COPYING = words(
    """
    list dict set tuple sorted frozenset bytearray bytes str
    """
)
FUNCTIONS = PLAIN_TYPES | COPYING | ITERATOR_FUNCTIONS
FUNCTIONS |= {"abs", "all", "any", "ascii", "bin", "chr", "divmod", "format", "hex", "isinstance", "len", "max", "min"}
FUNCTIONS |= {"next", "oct", "ord", "pow", "print", "repr", "round", "slice", "sum"}
EXCEPTIONS = frozenset(  # that can be rebuilt from their arguments; not groups, which hold exceptions
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
) - {"BaseExceptionGroup", "ExceptionGroup"}
EXCEPTION_ATTRIBUTES = frozenset(("args", "errno", "strerror", "filename"))
_TYPES_OF_DATA: tuple[type, ...] = (
    *(bool, bytearray, bytes, complex, dict, float, frozenset, int, list, range, set, slice, str, tuple),
    *(collections.Counter, collections.OrderedDict, collections.defaultdict, collections.deque),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction),
)
DATA_ATTRIBUTES = frozenset(name for kind in _TYPES_OF_DATA for name in dir(kind) if not name.startswith("_"))
# Values; the others are methods, which give data only when called.
DATA_FIELDS = frozenset(
    name for name in DATA_ATTRIBUTES if not any(callable(getattr(kind, name, None)) for kind in _TYPES_OF_DATA)
)
MUTATORS = words(
    """
    add append appendleft clear difference_update discard extend extendleft insert intersection_update move_to_end
    pop popitem popleft remove reverse rotate setdefault sort subtract symmetric_difference_update update
    """
)
CHANGING_FUNCTIONS = words(
    """
    heapify heappop heappush heappushpop heapreplace insort insort_left insort_right shuffle
    """
)


def public_names(module: str) -> list[str]:
    """What `from module import *` binds; nothing for modules that a test may not import apart from the program."""
    if module not in MODULES:
        return []
    names = vars(importlib.import_module(module))
    return list(names.get("__all__", [name for name in names if not name.startswith("_")]))
