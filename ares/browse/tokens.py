"""The tokens of trained samples, each with what the learner measured of it.

Pieces of text are decoded with the model's tokenizer.json alone: transformers takes seconds to load. Not covered: the
colours (assets/page.js).
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from huggingface_hub import try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer

from ares.config import location
from ares.store import StoreError

MEASURES = {
    "entropy": "entropies", "log_prob": "old_log_probs", "reference": "ref_log_probs", "engine": "engine_log_probs",
    "advantage": "advantages", "kl_coef": "kl_coefs", "hwe": "hwe_mask", "trained": "response_mask",
}  # fmt: skip
"""What the page calls a measure, and its tensor [B, L]."""


@lru_cache(maxsize=8)
def load_pieces(model: str) -> Tokenizer | None:
    """A model's tokenizer; None if its tokenizer.json is not on this machine."""
    file = Path(location(model)) / "tokenizer.json"
    if file.exists():
        return Tokenizer.from_file(str(file))
    try:
        cached = try_to_load_from_cache(model, "tokenizer.json")
    except HFValidationError:  # a path, and nothing lies there
        return None
    return Tokenizer.from_file(cached) if isinstance(cached, str) else None


def token_rows(batch: Path, rows: list[int], tokenizer: Tokenizer | None) -> list[dict[str, Any]]:
    """For each of some rows of a batch: its `pieces` of text (ids without a tokenizer), and each measure by token.

    Raises StoreError.
    """
    try:
        with safe_open(batch, framework="numpy") as tensors:
            names = set(tensors.keys())
            read = {title: tensors.get_slice(name) for title, name in MEASURES.items() if name in names}
            ids, attended = tensors.get_slice("responses"), tensors.get_slice("attention_mask")
            width = ids.get_shape()[1]
            shown = []
            for row in rows:
                whole = attended[row : row + 1][0]
                length = int(whole[len(whole) - width :].sum())
                measures = {title: tensor[row : row + 1][0][:length] for title, tensor in read.items()}
                pieces = _pieces(ids[row : row + 1][0][:length].tolist(), tokenizer)
                shown.append(as_json({"pieces": pieces, **measures}))
            return shown
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{batch}: its tokens cannot be read: {error}") from error


def as_json(value: Any) -> Any:
    """A value as JSON has it: six digits, null for what is missing or not finite, arrays as lists."""
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, np.ndarray | list):
        return [as_json(each) for each in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return None if value is pd.NA else value.item() if isinstance(value, np.generic) else value


def _pieces(ids: list[int], tokenizer: Tokenizer | None) -> list[str]:
    """The text that each token adds: decoded behind the token before it, since decoders drop a leading space.

    A character that several tokens make up stands at the last of them.
    """
    if tokenizer is None:
        return [f"{token} " for token in ids]
    pieces, begun = [], 0
    for place in range(len(ids)):
        before = tokenizer.decode(ids[max(begun - 1, 0) : begun], skip_special_tokens=False)
        text = tokenizer.decode(ids[max(begun - 1, 0) : place + 1], skip_special_tokens=False)[len(before) :]
        if text.endswith("�") and place + 1 < len(ids) and place - begun < 4:
            pieces.append("")
        else:
            pieces.append(text)
            begun = place + 1
    return pieces
