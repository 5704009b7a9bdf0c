"""Checks that all input shares: exact types, bounded numbers, names and small text files."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from vectrial.model.errors import control_character

#: Bytes of UTF-8 in a name: it becomes part of the names of files, which have 255.
NAME_BYTES = 200


class ExactModel(BaseModel):
    """A model that does not accept texts or booleans as numbers, nor numbers as booleans. Its
    validator is built on first use: a measuring process validates nothing."""

    model_config = ConfigDict(defer_build=True)

    @field_validator("*", mode="wrap")
    @classmethod
    def _no_conversion(cls, given: object, handler: ValidatorFunctionWrapHandler) -> Any:
        value = handler(given)
        _require_same_type(given, value)
        return value


def _require_same_type(raw: object, value: object) -> None:
    """Raise ValueError if a validated `value` was converted from another type."""
    if isinstance(value, bool):
        if not isinstance(raw, bool):
            raise ValueError("expected true or false")
    elif isinstance(value, int | float):
        if isinstance(raw, bool | str | bytes):
            raise ValueError("expected a number")
    elif isinstance(value, list | tuple):
        many = raw if isinstance(raw, list | tuple) else [raw]
        for one, made in zip(many, value, strict=False):
            _require_same_type(one, made)
    elif isinstance(value, dict) and isinstance(raw, dict):
        for key, made in value.items():
            _require_same_type(raw.get(key), made)


def name_fault(name: str) -> str:
    """Fault of a name that is printed and becomes part of file names; empty if it is valid."""
    if not name.strip():
        return "a name needs a letter"
    if (odd := control_character(name)) is not None:
        return f"a name has no control characters, and this one has {odd!r}"
    if len(name.encode("utf-8", "surrogatepass")) > NAME_BYTES:
        return f"a name has at most {NAME_BYTES} bytes"
    return ""


def _checked_name(name: str) -> str:
    if fault := name_fault(name):
        raise ValueError(fault)
    return name


#: A name in a suite.
Name = Annotated[str, AfterValidator(_checked_name)]
#: Seconds of something that is waited for: a day at most.
PositiveSeconds = Annotated[float, Field(gt=0, le=86_400)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]
#: Clients of a closed loop.
Clients = Annotated[int, Field(ge=1, le=10_000)]
#: Requests in flight of an open loop.
InFlight = Annotated[int, Field(ge=1, le=1_000_000)]
#: A share of the rows that is not none, nor all.
Share = Annotated[float, Field(gt=0, lt=1)]
#: Queries before the clock starts.
Warmup = Annotated[int, Field(ge=0, le=1_000_000)]
#: Operations that are made ready before the clock starts.
Samples = Annotated[int, Field(ge=1, le=100_000)]
#: Rows of a request, or of an answer.
Count = Annotated[int, Field(ge=1, le=1_000_000)]
#: Arrivals per second.
Rate = Annotated[float, Field(gt=0, le=100_000_000)]


def read_bytes(path: Path, most: int, *, pipes: bool = False) -> bytes:
    """The content of a regular file; with `pipes` also of a pipe or a device.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file, or has more than `most` bytes.
    """
    # Opening a pipe that nobody writes would wait for ever.
    flags = os.O_RDONLY if pipes else os.O_RDONLY | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags | os.O_CLOEXEC), "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(mode) or pipes):
            raise ValueError("it is not a regular file")
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most / 2**20:,.0f} MiB")
    return content


def product_size(axes: Sequence[Sequence[object]]) -> int:
    """Number of combinations of the values of `axes`."""
    size = 1
    for values in axes:
        size *= len(values)
    return size
