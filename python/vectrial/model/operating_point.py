"""Operating points: settings at which an experiment measures a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from vectrial.model.capabilities import Params, Returning


class OperatingPoint(dict[str, Any]):
    """One point of an experiment on an index. It is validated when it is made, by the plan, goes as
    it is to the experiment and to what searches the store, and cannot be changed.

    It holds its parameters by name: they define the trial, and results name them.

    search: those that the index's model of search parameters has, as the store takes them.
    returning: what searches return.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        search: Params,
        returning: Returning = Returning.IDS,
    ) -> None:
        super().__init__(parameters)
        self.search, self.returning = search, returning

    @classmethod
    def parse(cls, model: type[Params], parameters: Mapping[str, Any]) -> OperatingPoint:
        """The point with these parameters on an index with this model of search parameters.

        Raises:
            ValidationError: the index does not take the value of a parameter.
        """
        search = {name: one for name, one in parameters.items() if name in model.model_fields}
        returning = Returning(parameters.get("returns", Returning.IDS))
        return cls(parameters, model.model_validate(search), returning)

    def with_parameters(self, **parameters: Any) -> OperatingPoint:
        """The same searches, with further parameters of the experiment."""
        return OperatingPoint({**parameters, **self}, self.search, self.returning)

    def __reduce__(self) -> tuple[type[OperatingPoint], tuple[Any, ...]]:
        return OperatingPoint, (dict(self), self.search, self.returning)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("an operating point is not changed: make another one")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse
