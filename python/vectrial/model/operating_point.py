"""Operating points: settings at which an experiment measures a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vectrial.model.capabilities import Params, Returning


@dataclass(frozen=True, eq=False)
class OperatingPoint(Mapping[str, Any]):
    """One point of an experiment on an index. It is validated when it is made, by the plan, and
    goes as it is to the experiment and to what searches the store.

    As a mapping it holds its parameters by name: they define the trial, and results name them.

    search: those that the index's model of search parameters has, as the store takes them.
    returning: what searches return.
    """

    parameters: Mapping[str, Any]
    search: Params
    returning: Returning = Returning.IDS

    @classmethod
    def of(cls, model: type[Params], parameters: Mapping[str, Any]) -> OperatingPoint:
        """The point with these parameters on an index with this model of search parameters.

        Raises:
            ValidationError: the index does not take the value of one.
        """
        search = {name: one for name, one in parameters.items() if name in model.model_fields}
        returning = Returning(parameters.get("returns", Returning.IDS))
        return cls(parameters, model.model_validate(search), returning)

    def with_parameters(self, **parameters: Any) -> OperatingPoint:
        """The same searches, with further parameters of the experiment."""
        return OperatingPoint({**parameters, **self.parameters}, self.search, self.returning)

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)
