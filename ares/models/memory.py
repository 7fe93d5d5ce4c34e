"""Memory of this process that torch has freed and the C library keeps."""

import ctypes


def return_free_memory() -> None:
    """Give freed memory back to the machine, where the C library can.

    Our allocator's settings (flows/environment.py) keep all of it, since a pass frees and takes the same large tensors
    again and again. Between passes the process beside this one needs it.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)
