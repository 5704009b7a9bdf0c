"""The stores and parts with which a reproduction goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vectrial.model.errors import UserError
from vectrial.plan.model import Plan
from vectrial.util.suggest import suggestion
from vectrial_reproduce.reports.planning import PartPlan


@dataclass(frozen=True)
class Selection:
    """A selection of stores and parts; empty: all of them."""

    stores: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def plan(self, part: PartPlan, plan: Plan) -> Plan:
        """The jobs of this selection in the plan of a part."""
        if self.parts and part.part.name not in self.parts:
            return plan.for_stores(())
        return plan.for_stores(self.stores) if self.stores else plan


def select(plans: Sequence[PartPlan], stores: Sequence[str], parts: Sequence[str]) -> Selection:
    """Select these stores and parts of a reproduction.

    plans: plans of all its parts, as it was begun.

    Raises:
        UserError: it was begun without such a store or part.
    """
    begun = [(plan.part.name, plan.suite) for plan in plans if plan.suite is not None]
    known = {
        "--store": (stores, sorted({ref.store for _, suite in begun for ref in suite.stores})),
        "--part": (parts, [name for name, _ in begun]),
    }
    for option, (wanted, there) in known.items():
        for name in wanted:
            if name not in there:
                raise UserError(
                    f"this reproduction was begun without '{name}'",
                    where=option,
                    remedy=suggestion(name, there),
                )
    return Selection(tuple(stores), tuple(parts))
