"""Memory: what an update takes of it, the settings against running out of it, and giving freed memory back.

Not covered: processes that the kernel kills, which cannot say anything (ares/cluster/cluster.py).
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from algorithms.protocol import DataProto
from ares.config import Config
from ares.errors import UserError
from ares.models.policy_model import PolicyModel

SMALL, LARGE = 16, 80
"""Tokens of the two rows that are tried to see what a token takes."""
CGROUP = Path("/sys/fs/cgroup")
GIB = 2**30
_MAY = "; `ares resume RUN SETTING=VALUE` may, since it changes only rounding"
SETTINGS_AGAINST = {
    "learner": "lower learner.micro_batch_tokens or set model.gradient_checkpointing=true" + _MAY,
    "engine": "lower rollout.shard_prompts, rollout.vllm.max_sequences or rollout.diffusion.batch" + _MAY,
}
"""What to do where the learner or the engine of a run has too little memory."""


class OutOfMemory(UserError, RuntimeError):
    """The machine has too little memory; the message names the settings against it."""


@contextmanager
def naming_settings(role: str) -> Iterator[None]:
    """Turn the errors of a learner or an engine that got no memory into OutOfMemory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        told = str(error)
        if not isinstance(error, MemoryError | torch.OutOfMemoryError) and "can't allocate memory" not in told:
            raise
        cause = " ".join(told.split("\n")[0].split())[:200] or type(error).__name__
        raise OutOfMemory(f"out of memory ({cause}): {SETTINGS_AGAINST[role]}") from error


def warn_of_memory(policy: PolicyModel, config: Config, trained: int, device: torch.device) -> str | None:
    """What to say at the start where an update will not fit into the memory that is free now; None: it fits.

    trained: numbers that take a gradient and AdamW's two moments. What a token's activations take is measured on two
    short rows. On a CPU the engines' weights will be in the same memory. Devices other than CPUs and CUDA's are not
    asked: not all say what is free.
    """
    if device.type not in ("cpu", "cuda"):
        return None
    free, fixed = free_memory(device), 12 * trained
    if device.type == "cpu":
        weights = sum(parameter.numel() for parameter in policy.model.parameters())
        fixed += config.rollout.engines * weights * getattr(torch, config.model.dtype).itemsize
    small, large = (_saved_bytes(policy, tokens) for tokens in (SMALL, LARGE))
    a_token, tokens = (large - small) / (LARGE - SMALL), config.learner.micro_batch_tokens
    if fixed + a_token * tokens <= free:
        return None
    fits = int((free - fixed) / a_token)
    remedy = f"learner.micro_batch_tokens={fits} fits" if fits > 0 else "nothing is left for them"
    return (
        f"an update takes about {(fixed + a_token * tokens) / GIB:.1f} GiB and {free / GIB:.1f} are free: "
        f"{fixed / GIB:.1f} for gradients, moments and engines, {a_token * tokens / GIB:.1f} for "
        f"learner.micro_batch_tokens={tokens}; {remedy}"
    )


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still take: of a GPU, or of main memory within its control group."""
    if device.type != "cpu":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    limit, held = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.is_file() and (most := limit.read_text().strip()).isdigit():
        free = min(free, int(most) - int(held.read_text()))
    return free


def _saved_bytes(policy: PolicyModel, tokens: int) -> int:
    """What a pass over one row keeps for its backward pass, but for weights and for logits, which are made in tiles."""
    known = {parameter.untyped_storage().data_ptr() for parameter in policy.model.parameters()}
    vocabulary, kept = policy.model.get_input_embeddings().num_embeddings, []

    def keep(tensor: Tensor) -> None:
        if tensor.shape[-1:] != (vocabulary,) and tensor.untyped_storage().data_ptr() not in known:
            # With its storage, so that no other gets its address, but not its graph, whose hooks hold this list: such a
            # circle is never freed.
            kept.append(tensor.detach())

    answer = torch.ones(1, tokens - 1, dtype=torch.long)
    row = {"prompts": answer[:, :1], "responses": answer, "attention_mask": torch.ones(1, tokens, dtype=torch.long)}
    row |= {"response_mask": answer, "canvas": answer, "mask_seeds": answer[:, 0]}
    part = policy.on_device(DataProto.from_dict(row, {"media_references": [[]]}))
    with saved_tensors_hooks(keep, lambda nothing: nothing):
        policy.token_log_probs(part, 1.0)
    return sum({each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in kept}.values())


def return_free_memory() -> None:
    """Give freed memory back to the machine, where the C library can.

    Our allocator's settings (flows/environment.py) keep all of it, since a pass frees and takes the same large tensors
    again and again. Between passes the process beside this one needs it.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
