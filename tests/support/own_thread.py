"""Tests that take mounts of their own, in a thread of their own: a thread that has them no longer
shares its current folder with the rest of the process, where later tests would miss it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def in_own_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run to its end in a new thread."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(function, *args, **kwargs).result()

    return run
