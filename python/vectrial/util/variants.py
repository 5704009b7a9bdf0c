"""Variants of one store within a run: two releases, two servers, two settings, as `redis@before`
and `redis@after`.

A suite only names a variant. What the variant is, beyond its build parameters, belongs to a machine
and comes from the environment: VECTRIAL_REDIS_BIN__BEFORE stands for VECTRIAL_REDIS_BIN wherever
`redis@before` is measured.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from vectrial.model.errors import UserError

T = TypeVar("T")

#: Names that a variant may have.
PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}"
_AT, _MARK, _FILE = "@", "__", "_FILE"
#: Variables that say where a server comes from.
_SOURCES = ("BIN", "ADDRESS", "PROVIDER")
_LOCK = threading.RLock()
_VARIABLE = re.compile(r"(?P<plain>VECTRIAL_[A-Z0-9_]*?[A-Z0-9])__(?P<variant>[A-Z0-9_]+)")


def full_name(store: str, variant: str | None) -> str:
    """The name of a store's variant in results and on the command line: `redis@before`; without a
    variant, the store's own name."""
    return f"{store}{_AT}{variant}" if variant else store


def store_of(name: str) -> str:
    """The store part of a name: `redis` of `redis@before`."""
    return name.partition(_AT)[0]


def file_stem(name: str) -> str:
    """A name as part of a file name: `redis-before`."""
    return name.replace(_AT, "-")


def suffix(variant: str) -> str:
    """The suffix of the names of a variant's variables: `__BEFORE`."""
    return _MARK + re.sub(r"[^A-Z0-9]", "_", variant.upper())


def variables_of(variant: str) -> Mapping[str, str]:
    """The environment variables that belong to a variant, each by the name of the variable that it
    replaces."""
    if not variant:
        return {}
    wanted = suffix(variant).removeprefix(_MARK)
    found = ((_VARIABLE.fullmatch(name), value) for name, value in os.environ.items())
    return {match["plain"]: value for match, value in found if match and match["variant"] == wanted}


def configured_variants() -> tuple[str, ...]:
    """The variants for which environment variables exist, in capitals, each once."""
    found = map(_VARIABLE.fullmatch, os.environ)
    return tuple(dict.fromkeys(match["variant"] for match in found if match))


@contextmanager
def set_variables(variant: str) -> Iterator[None]:
    """Within the block, replace general environment variables by a variant's own, and remove those
    that they contradict: for a variant with a program, the address of a running server. Errors
    about a variable name the variant's own. One block at a time: others wait."""
    own = variables_of(variant)
    if not own:
        yield
        return
    hidden = {other for name in own for other in _replaced_variables(name)} - own.keys()
    with _LOCK:
        before = {name: os.environ.get(name) for name in own.keys() | hidden}
        for name in hidden:
            os.environ.pop(name, None)
        os.environ.update(own)
        try:
            yield
        except UserError as error:
            if error.where in own:
                error.where += suffix(variant)
            raise
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _replaced_variables(name: str) -> Iterator[str]:
    """The variables that a variable replaces, beside the general variable of the same name."""
    # A secret stands in a variable or in a file.
    yield name.removesuffix(_FILE) if name.endswith(_FILE) else name + _FILE
    stem, _, what = name.rpartition("_")
    if what in _SOURCES:
        yield from (f"{stem}_{other}" for other in _SOURCES if other != what)


def run_with_variables(variant: str, steps: Generator[T]) -> Generator[T]:
    """The same steps, each taken with a variant's own variables, which are not set in between."""
    try:
        while True:
            with set_variables(variant):
                try:
                    step = next(steps)
                except StopIteration:
                    return
            yield step
    finally:
        with set_variables(variant):
            steps.close()
