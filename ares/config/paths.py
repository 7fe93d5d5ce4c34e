"""Where the path in a setting is found: in the working directory, else in the checkout, else on the hub.

Covered: finding a path, and why nothing could be read there. A setting keeps the path as it was written, so the
fingerprint does not depend on the machine. Not covered: extensions' files, which start in the working directory.
"""

import glob
import os
import re
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
MOVED = ("ares/tiny/", "examples/tiny/")
"""Where settings of older runs find the toys in the checkout, and where these lie now."""
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def location(path: str) -> str:
    """A path as the working directory has it, else as the checkout does (those of shipped profiles), else unchanged."""
    in_checkout = CHECKOUT / path.replace(*MOVED)
    return str(in_checkout) if not os.path.exists(path) and os.path.exists(in_checkout) else path


def matches(pattern: str) -> list[str]:
    """The files of a glob, by name: those of the working directory, else those of the checkout."""
    for place in (pattern, str(CHECKOUT / pattern.replace(*MOVED))):
        if files := sorted(path for path in glob.glob(place, recursive=True) if Path(path).is_file()):
            return files
    return []


def seen_from(path: str | Path) -> str:
    """The directory that a relative path starts in, for errors."""
    return "" if Path(path).is_absolute() else f" in {Path.cwd()}"


def absent_model(path: str, error: Exception) -> str | None:
    """Why a model's path could not be read: no directory, or GGUF; None for a directory that has another fault."""
    if os.path.exists(found := Path(location(path))):
        files = [found] if found.suffix == ".gguf" else sorted(found.glob("*.gguf"))
        if files and not (found / "config.json").exists():
            return f"model.path={path}: a GGUF file; `ares import {files[0]} --out DIR` makes a model directory of it"
        return None if found.is_dir() else f"model.path={path}: a file, name the directory that it lies in"
    if not _HUB_NAME.fullmatch(path):
        return f"model.path={path}: there is no such directory{seen_from(path)}"
    reason = " ".join(str(error).split())
    return f"model.path={path}: no directory of {Path.cwd()}, and no model of the hub that can be read: {reason}"
