"""Landlock: which files a process may open, no TCP, no abstract unix sockets, no signals out of the domain.

Landlock needs no privilege, so it is the file layer where mount namespaces are refused. Alone it leaks stat(): it
restricts opening, not looking up. A rule is tied to the inode behind a path, so a remounted /tmp needs a new ruleset.
"""

import os
import stat
import struct
from collections.abc import Sequence

from . import kernel

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | (1 << 15)
# Devices, sockets and pipes are never made.
_MAKE_SPECIAL = (1 << 6) | (1 << 9) | (1 << 10) | (1 << 11)
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_RIGHTS_SINCE = {1: (1 << 13) - 1, 2: 1 << 13, 3: _TRUNCATE, 5: 1 << 15}  # by version
_RULE_PATH_BENEATH = 1


def make_ruleset(read_only: list[str], read_write: list[str], listed: Sequence[str] = ()) -> int:
    """A descriptor of rules that allow reading below some paths and ordinary files below others; nothing else.

    `listed`: directories below which names may be read, but not files. Paths out of reach are left out. Raises OSError
    if Landlock is absent or switched off.
    """
    version = kernel.call("landlock_create_ruleset", 0, 0, 1)
    handled = sum(rights for since, rights in _RIGHTS_SINCE.items() if version >= since)
    attributes = struct.pack("QQQ", handled, 3 if version >= 4 else 0, 3 if version >= 6 else 0)  # files, TCP, scopes
    ruleset = kernel.call("landlock_create_ruleset", attributes, 8 if version < 4 else 16 if version < 6 else 24, 0)
    everything = handled & ~_MAKE_SPECIAL & ~_EXECUTE
    groups = ((read_only, _READ), (read_write, everything), (["/dev/null"], everything), (listed, _READ_DIR))
    for path, rights in ((path, rights) for paths, rights in groups for path in paths):
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, PermissionError):
            continue
        is_directory = stat.S_ISDIR(os.fstat(parent).st_mode)
        allowed = rights if is_directory else rights & handled & _FILE_RIGHTS
        kernel.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", allowed, parent), 0)
        os.close(parent)
    return ruleset


def restrict(ruleset: int) -> None:
    """Confine the calling thread, and all it starts, by these rules. Needs no_new_privs; cannot be undone."""
    kernel.call("landlock_restrict_self", ruleset, 0)
