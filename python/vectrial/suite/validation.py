"""Data validated as a model: the first fault is an error that names the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from vectrial.model.errors import UserError, shown
from vectrial.util.suggest import suggestion

M = TypeVar("M", bound=BaseModel)


def validate(model: type[M], data: Mapping[str, Any], where: str) -> M:
    """`data` validated as `model`; the first fault becomes a `UserError` that names the key."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _validation_error(model, error, where) from error


def faults_of(
    model: type[BaseModel], data: Mapping[str, Any]
) -> list[tuple[tuple[str | int, ...], str]]:
    """Every fault of `data` as `model`: the keys and positions that lead to it, and what was
    expected. Empty if it is valid."""
    try:
        model.model_validate(data)
    except ValidationError as error:
        return [(fault["loc"], valid_values(fault["msg"])) for fault in _causes(error)]
    return []


def _causes(error: ValidationError) -> list[ErrorDetails]:
    """The faults, without defaults that are unknown because of another fault."""
    return [fault for fault in error.errors() if fault["type"] != "default_factory_not_called"]


def valid_values(message: str) -> str:
    """The values that are valid, in words, from pydantic's message about one that is not."""
    return message.removeprefix("Value error, ")


def _validation_error(model: type[BaseModel], error: ValidationError, where: str) -> UserError:
    # A union reports every branch; the fault of an unknown key says most, so it goes first.
    faults = sorted(_causes(error), key=lambda fault: fault["type"] != "extra_forbidden")
    fault = faults[0]
    path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in fault["loc"]).lstrip(".")
    remedy = ""
    match fault["type"]:
        case "extra_forbidden":
            what = f"unknown key '{path}'"
            remedy = suggestion(str(fault["loc"][-1]), _keys_at(model, fault["loc"][:-1]))
        case "missing":
            what = f"'{path}' is missing"
            known = ", ".join(_keys_at(model, fault["loc"][:-1]))
            remedy = f"the keys here are: {known}" if known else ""
        case _:
            value = f", got {shown(fault['input'])}" if not isinstance(fault["input"], dict) else ""
            what = f"'{path}': {valid_values(fault['msg'])}{value}"
    return UserError(what, where=where, remedy=remedy)


def _keys_at(model: type[BaseModel], path: tuple[str | int, ...]) -> list[str]:
    """Keys of the model that `path` leads to, following lists of models."""
    current: Any = model
    for part in path:
        if isinstance(part, int):
            continue
        field = getattr(current, "model_fields", {}).get(part)
        if field is None:
            return []
        arguments = getattr(field.annotation, "__args__", ())
        current = arguments[0] if arguments else field.annotation
    return list(getattr(current, "model_fields", {}))
