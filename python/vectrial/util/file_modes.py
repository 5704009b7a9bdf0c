"""Modes of the files that this process makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def private_files() -> Iterator[None]:
    """Inside the block, only their owner can use new files and folders."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def readable_files() -> Iterator[None]:
    """Inside the block, others may read new files and enter new folders, but change none."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def make_readable(folder: Path) -> None:
    """Let others read everything in a folder, execute what is executable, and change nothing."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode & 0o755
            path.chmod(mode | (0o055 if path.is_dir() or mode & 0o100 else 0o044))
