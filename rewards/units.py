"""Units of quantities: 5 cm is 5, and not 5 m; 5 million is not 5.

Covered: units in \\text, usual ones without it, currencies, percent, degrees, words of magnitude. What else follows
a number is a unit if it is a noun: it has a plural (`5 red apples`), or is one of one (`1 apple`). A word that could
change the value (`5 or more`, `5 squared`, `3 eighths`) is no unit. Not covered: conversion, as of 100 cm and 1 m;
`km per hour` for km/h.
"""

import re

from rewards.latex import LETTER, LETTER_UNITS

CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yuan", "元": "yuan"}
BARE = (
    "mm", "cm", "dm", "km", "kg", "mg", "ml", "mL", "kL", "kW", "kWh", "MHz", "GHz", "Hz", "mol", "Pa", "kPa", "hr",
    "hrs", "min", "mins", "sec", "secs", "ms", "ft", "in", "yd", "mi", "mph", "lb", "lbs", "oz", "rad", "st", "nd",
    "rd", "th", "m/s", "km/h", "sq", "a.m", "p.m", "am", "pm", "AM", "PM",
)  # fmt: skip
"""Short units that need no \\text."""
SAME = {
    "a.m": "am", "p.m": "pm", "AM": "am", "PM": "pm", "percent": "%", "h": "hour", "hr": "hour", "min": "minute",
    "sec": "second", "s": "second", "feet": "foot", "ft": "foot", "inche": "inch", "in": "inch", "yd": "yard",
    "mi": "mile", "lb": "pound", "oz": "ounce", "rad": "radian", "mph": "milesperhour", "m/s": "meterspersecond",
} | {
    short + unit: prefix + name
    for short, prefix in {"": "", "k": "kilo", "d": "deci", "c": "centi", "m": "milli"}.items()
    for unit, name in {"m": "meter", "g": "gram", "l": "liter", "L": "liter"}.items()
}  # fmt: skip
UNITS = {
    *BARE, *LETTER_UNITS, *SAME, *SAME.values(), "people", "children", "men", "women", "fish", "sheep", "mice", "euro",
    "yuan", "yen", "rpm", "nm", "gal", "pts", "degree", "dollar", "cent", "cup", "pint", "quart", "gallon", "ton",
    "acre", "unit", "day", "week", "month", "year",
}  # fmt: skip
"""Units besides the words with an s for their plural, and the capitals of abbreviations."""
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "亿": 8}
CHANGES = re.compile(
    r"\b(or|and|not|to|than|more|less|most|least|if|between|plus|minus|times|over|of|is|are|was|wrong|"
    r"incorrect|false|but|except|instead|maybe|perhaps|about|from|point|scores?|below|above|remainder|squared|cubed|dozens?|hal(f|ves)|"
    r"quarters?|k|factorial|mod|unless|sometimes|always|equals|versus|negative|positive|"
    r"divided|multiplied|choose|base|power|root|sin|cos|tan|cot|sec \w+|csc|ln|log|exp|sqrt|arc(sin|cos|tan)|"
    r"(one|two|three|four|ten)(s|ths?|teen\w*)?|(fif|five|six|seven|eigh|nine|nint|eleven|twel|twen|thir|fort[yi]|hundred|"
    r"thousand|\w+illion)\w*)\b|^in\b.|[百千或和至到]",
    re.IGNORECASE,
)
"""Words after a number that change it."""
_ANGLE = re.compile(r"sin|cos|tan|cot|sec|csc")
_POWER = r"(?:\s*\^\s*\{?\s*[23]\s*\}?)?"
_SHORT = "|".join(re.escape(unit) for unit in sorted(BARE, key=len, reverse=True))
_QUANTITY = re.compile(
    rf'(.*?[\d)}}!a-z])\s*(?:((?:\^\\circ\s*)?"[^"]*"{_POWER}|[一-鿿]+)'  # in quotes, or Chinese
    rf"|(?<![a-zA-Z\\])((?:(?:{_SHORT})\.?\s*)+{_POWER})"
    rf"|(?<=[\d)}}]) ({LETTER}{{3,}}(?: {LETTER}+){{0,3}}))"  # one to four words
)
_MAGNITUDE = re.compile(rf'(.*?)\s*"?\s*(?<![a-zA-Z])({"|".join(SCALES)})(?![a-zA-Z])\s*"?\s*(.*)')


def quantity(text: str) -> tuple[str, str]:
    """(value, unit) of a cleaned text, the unit "" where there is none or a word that might change the value."""
    if text[:1] in CURRENCIES:
        value, unit = _scaled(text[1:].strip(), "")
        return value, unit or CURRENCIES[text[0]]
    if text[-1:] in CURRENCIES:
        return text[:-1].strip(), CURRENCIES[text[-1]]
    if text.endswith("%"):
        return text[:-1].strip(), "%"
    if found := re.fullmatch(r'(.*?)\s*\^\\circ\s*"?([CF])"?', text):
        return found[1], f"degree {found[2]}"
    if text.endswith("^\\circ") and not _ANGLE.search(text):
        return text.removesuffix("^\\circ").strip(), "degree"
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return text, ""
    value, unit = _scaled(found[1].strip(), next(group for group in found.groups()[1:] if group).replace('"', ""))
    return (value, name_of(unit)) if not unit or _is_unit(unit.strip(), value) else (text, "")


def _is_unit(text: str, value: str) -> bool:
    """Whether words after a value are a unit, and change nothing."""
    words = re.findall(rf"{LETTER}+", text)
    return not CHANGES.search(text) and any(
        not UNITS.isdisjoint((word, word.casefold()))
        or re.fullmatch(r"[一-鿿]+|[a-z]?[A-Z]{1,3}|\w{3,}(?<!s)s", word)
        or (value == "1" and words == [word])
        for word in words
    )


def _scaled(value: str, unit: str) -> tuple[str, str]:
    """A magnitude in words as a power of ten: 5, `million dollars` as 5·10^6, `dollars`."""
    for text in (value, unit):
        if found := _MAGNITUDE.fullmatch(text):
            return rf"{found[1] or value}\cdot 10^{{{SCALES[found[2]]}}}", found[3] if text is unit else unit
    return value, unit


def name_of(unit: str) -> str:
    """One name for a unit: cm², square centimeters."""
    name, _, power = re.sub(r"[\s{}]", "", unit.replace("^\\circ", "degree").strip(" .")).partition("^")
    name = name if len(name) <= 2 else name.casefold()
    if found := re.fullmatch(r"(square|sq\.?|cubic)(.+)", name):
        name, power = found[2], "3" if found[1] == "cubic" else "2"
    name = name.replace("metre", "meter").replace("litre", "liter")
    singular = name[:-1] if len(name) > 2 and name.endswith("s") and name not in SAME else name
    return SAME.get(singular, singular) + power
