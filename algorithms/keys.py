"""Keys of random draws: a draw's seed is a hash of its purpose, never of when it happens."""

import hashlib


def derive_seed(*parts: str | int) -> int:
    """A 63-bit seed from the parts that name a draw, such as (run seed, step, "rollout", problem id, sample)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
