"""What runs, forks and ablations may be called: names that are one folder everywhere, and no option."""

import re

from ares.store.errors import StoreError

LONGEST = 100
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
RULE = f"letters, digits, '.', '_' and '-', a letter or digit first, at most {LONGEST} characters"


def is_name(name: str) -> bool:
    """Whether something may be called so."""
    return _NAME.fullmatch(name) is not None


def name_after(text: str) -> str:
    """What may be called after a text: what no name can hold becomes a dash."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[: LONGEST // 2] or "run"


def checked_name(name: str) -> str:
    """The name. Raises StoreError, with the rule, where nothing may be called so."""
    if not is_name(name):
        shown = name if len(name) <= LONGEST else f"{name[:20]}… ({len(name)} characters)"
        raise StoreError(f"{shown!a} cannot be the name of a run or an ablation: {RULE}")
    return name
