"""Units of quantities: 5 cm is 5, and not 5 m; 5 million is not 5.

Covered: units in \\text, usual ones without it, currencies, percent, degrees, words of magnitude. A word that could
change the value (`5 or more`, `5 squared`) is no unit. Not covered: conversion, as of 100 cm and 1 m.
"""

import re

from rewards.latex import LETTER

CURRENCIES = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yuan", "元": "yuan"}
BARE = (
    "mm", "cm", "dm", "km", "kg", "mg", "ml", "mL", "kL", "kW", "kWh", "MHz", "GHz", "Hz", "mol", "Pa", "kPa", "hr",
    "hrs", "min", "mins", "sec", "secs", "ms", "ft", "in", "yd", "mi", "mph", "lb", "lbs", "oz", "rad", "st", "nd",
    "rd", "th", "m/s", "km/h", "a.m", "p.m", "am", "pm", "AM", "PM",
)  # fmt: skip
"""Short units that need no \\text."""
SAME = {
    "a.m": "am", "p.m": "pm", "AM": "am", "PM": "pm", "percent": "%", "metre": "meter",
    "m": "meter", "cm": "centimeter", "km": "kilometer", "h": "hour", "hr": "hour", "min": "minute", "sec": "second",
    "s": "second", "feet": "foot", "ft": "foot", "inche": "inch", "in": "inch",
}  # fmt: skip
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "亿": 8}
CHANGES = re.compile(
    r"\b(or|and|not|to|than|more|less|most|least|if|between|plus|minus|times|over|of|is|are|was|wrong|"
    r"incorrect|false|but|except|instead|maybe|perhaps|about|from|point|score|below|above|remainder|squared|cubed|dozen|hal(f|ves)|"
    r"thirds?|quarters?|fifths?|sixths?|tenths?|hundredths?|thousandths?|k|factorial|mod)\b|[百千或和至到]",
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
    return (text, "") if CHANGES.search(unit) else (value, name_of(unit))


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
    if found := re.fullmatch(r"(square|cubic)(.+)", name):
        name, power = found[2], "2" if found[1] == "square" else "3"
    singular = name[:-1] if len(name) > 3 and name.endswith("s") else name
    return SAME.get(singular, singular) + power
