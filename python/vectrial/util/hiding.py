"""Files that this process, and what it starts, can no longer reach by their names.

For code of others that runs in it: what is in its memory it can still read.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterable
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_MS_RDONLY, _MS_REC, _MS_SLAVE = 1, 16384, 1 << 19
_PR_CAPBSET_DROP = 24
#: Rights that undo a mount, enter another process's mounts, or read its memory (capabilities(7)).
SYS_ADMIN, SYS_PTRACE = 21, 19
#: Version 3 of capget(2), with 64 rights in two words.
_CAPABILITIES = 0x20080522


class _RightsHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def separate_mounts() -> None:
    """Give this thread, and what it starts, its own mounts; later ones of the machine appear there.
    OSError if it may not, as any user but root."""
    _call("unshare", _CLONE_NEWNS)
    _call("mount", b"none", b"/", None, _MS_REC | _MS_SLAVE, None)


def hide(folders: Iterable[Path]) -> None:
    """Cover each folder with an empty one that nobody can write to, for this thread and what it
    starts. Mounts that the machine makes later still appear, and the machine sees none of these.

    Raises:
        OSError: it may not mount, as any user but root.
    """
    if sys.platform != "linux":
        raise OSError("folders are hidden on Linux only")
    separate_mounts()
    for folder in folders:
        if folder.is_dir():
            _call("mount", b"none", os.fsencode(folder.resolve()), b"tmpfs", _MS_RDONLY, b"size=4k")


def drop_rights(*rights: int) -> None:
    """Give up rights of root, for this thread and what it starts; they cannot be had again.

    Raises:
        OSError: the kernel refuses.
    """
    header, found = _RightsHeader(_CAPABILITIES, 0), (_Rights * 2)()
    _call("capget", ctypes.byref(header), found)
    for right in rights:
        _call("prctl", _PR_CAPBSET_DROP, right, 0, 0, 0)
        word, bit = divmod(right, 32)
        for name, _ in _Rights._fields_:
            setattr(found[word], name, getattr(found[word], name) & ~(1 << bit))
    _call("capset", ctypes.byref(header), found)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
