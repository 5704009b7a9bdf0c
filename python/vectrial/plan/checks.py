"""Checks of a suite against the stores: names, default indexes, search parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from vectrial.experiments.base import Experiment
from vectrial.model.capabilities import Params
from vectrial.model.errors import Unsupported, UserError
from vectrial.model.existing import Existing
from vectrial.model.lane import Lane
from vectrial.model.store import Store
from vectrial.plan.model import DatasetShape, Plan
from vectrial.suite.model import Suite
from vectrial.util import variants
from vectrial.util.formatting import plural
from vectrial.util.suggest import suggestion


def check_existing_supported(
    store: type[Store], existing: Existing, shape: DatasetShape, lane: Lane, nodes: int
) -> None:
    """Raise `Unsupported` if a store cannot read such collections, or not under this condition, or
    not through this lane."""
    if (support := store.capabilities.existing) is None:
        raise Unsupported(f"{store.name} measures no collection that is there already")
    if existing.where and not support.condition:
        raise Unsupported(
            f"{store.name} takes no condition in its own words", remedy="leave `where` out"
        )
    if nodes > 1:
        raise Unsupported("a collection that is there already has the nodes that it has")
    if shape.part:
        raise Unsupported(
            "a collection that is there already has all of its rows",
            remedy=f"leave `rows` of dataset '{shape.name}' out",
        )
    if shape.own_ids and lane is Lane.NATIVE:
        raise Unsupported(
            "the engine reads ids that are integers, and those of this collection are texts",
            remedy='lane = "sdk"',
        )


def check_existing_point(
    store: type[Store], experiment: Experiment, point: Mapping[str, Any]
) -> None:
    """Raise `Unsupported` for a point that changes rows, or a setting of the collection."""
    if not experiment.only_reads(point):
        raise Unsupported(
            f"{experiment.name} writes rows or makes a collection of its own, and one that is there"
            " already is only read"
        )
    existing = store.capabilities.existing
    assert existing is not None, "`check_existing_supported` comes first"
    for name in sorted(existing.settings):
        if point.get(name) is not None:
            raise Unsupported(
                f"{store.name}: {name} is a setting of the collection, which is not changed",
                remedy="leave it out: searches use the one that the collection has",
            )


def caveats_of(existing: Existing, shape: DatasetShape) -> tuple[str, ...]:
    """Caveats on figures of an existing collection, for the reader."""
    caveats = [
        f"the collection {existing.collection} was there already and is only read: how it was"
        " loaded is not known, and checks that change rows are not made",
    ]
    if existing.where:
        caveats.append(f"searches have the condition {existing.where}, as the application's have")
    if shape.queries_are_rows:
        caveats.append(
            "queries are rows of the collection, and each finds itself first: recall@k is higher"
            " than that of other queries by up to 1/k"
        )
    return tuple(caveats)


def check_restrictions(suite: Suite, where: str) -> None:
    """Check that restrictions of stores and experiments name entries of the suite.

    Raises:
        UserError: the suite has no such dataset, experiment or store.
    """
    known = {
        "datasets": {ref.name for ref in suite.datasets},
        "experiments": {ref.experiment for ref in suite.experiments},
        "stores": {name for ref in suite.stores for name in (ref.store, ref.name)},
    }
    restricted = [
        *((f"stores[{i}]", key, getattr(ref, key)) for i, ref in enumerate(suite.stores)
          for key in ("datasets", "experiments")),
        *((f"experiments[{i}]", "stores", ref.stores) for i, ref in enumerate(suite.experiments)),
    ]  # fmt: skip
    for entry, key, names in restricted:
        for name in names or ():
            if name not in known[key]:
                raise UserError(
                    f"'{name}' is not among this suite's {key}",
                    where=f"{where}: {entry}.{key}",
                    remedy=suggestion(name, known[key]),
                )


def plan_warnings(plan: Plan) -> list[str]:
    """Settings that are accepted but probably not intended, a sentence each."""
    suite = plan.suite
    shares = suite.client_limits.model_dump(include={"cpu_share", "ceiling_share", "lag_share"})
    found = [
        f"client_limits.{name} = {share:g} is more than the whole: nothing is held to it"
        for name, share in shares.items()
        if share > 1
    ]
    found += _variant_warnings(suite)
    estimates = [
        pair for job in plan.jobs for pair in zip(job.estimates_s, job.trials, strict=True)
    ]
    late = [pair for pair in estimates if pair[0] > suite.trial_timeout_s]
    if late:
        longest_s, trial = max(late, key=lambda pair: pair[0])
        found.append(
            f"trial_timeout_s = {suite.trial_timeout_s:g} may end {plural(len(late), 'trial')}:"
            f" {trial.row.experiment} of {trial.row.store} takes an estimated {longest_s:,.0f} s"
        )
    return found


def _variant_warnings(suite: Suite) -> Iterator[str]:
    """Warnings: variants that do not differ, and environment variables of no variant."""
    named = [ref for ref in suite.stores if ref.variant is not None]
    if not named:
        return
    seen: dict[str, str] = {}
    for ref in suite.stores:
        about = ref.model_dump(mode="json", exclude={"variant"})
        own = sorted(variants.variables_of(ref.variant or "").items())
        first = seen.setdefault(repr((about, own)), ref.name)
        if first != ref.name:
            yield (
                f"{first} and {ref.name} are the same: their entries are equal, and no variable of"
                f" the environment ends in {variants.suffix(ref.variant or first)}"
            )
    known = {variants.suffix(ref.variant or "") for ref in named}
    for ending in map(variants.suffix, variants.configured_variants()):
        if ending not in known:
            yield f"variables of the environment end in {ending}, and no variant has that name"


def with_indexes(suite: Suite, where: str, load_store: Callable[[str], type[Store]]) -> Suite:
    """The suite with the index of every store filled in, by default the store's default.

    Raises:
        UserError: a store has no such index, or several and no default among them.
    """
    stores = []
    for i, ref in enumerate(suite.stores):
        known = load_store(ref.store).capabilities
        index = known.index_or_default(ref.index)
        if index is None:
            raise UserError(
                f"store '{ref.store}' has several kinds of index, and none of them is its default",
                where=f"{where}: stores[{i}].index",
                remedy=f"one of {', '.join(known.indexes)}",
            )
        if index not in known.indexes:
            raise UserError(
                f"store '{ref.store}' has no index '{index}'",
                where=f"{where}: stores[{i}].index",
                remedy=suggestion(index, known.indexes),
            )
        stores.append(ref.model_copy(update={"index": index}))
    return suite.model_copy(update={"stores": stores})


def check_search_parameters(
    suite: Suite,
    where: str,
    load_store: Callable[[str], type[Store]],
    known_stores: Iterable[str],
) -> None:
    """Check that some store has each search parameter, and that some index of the suite takes each
    of its values. Not all need to, so that one suite can hold graphs, lists and flat indexes.

    Raises:
        UserError: no store has the parameter, or no index takes the value.
    """
    models: dict[str, list[type[Params]]] = {}

    def add(stores: Iterable[str]) -> None:
        for store in dict.fromkeys(stores):
            for label, kind in load_store(store).capabilities.indexes.items():
                used = any((ref.store, ref.index) == (store, label) for ref in suite.stores)
                for name in kind.search.model_fields:
                    models.setdefault(name, []).extend([kind.search] * used)

    own = [ref.store for ref in suite.stores]
    add(own)
    for i, ref in enumerate(suite.experiments):
        search = ref.parameters().get("search", {})
        for name, values in search.items() if isinstance(search, Mapping) else ():
            here = f"{where}: experiments[{i}].search"
            if name not in models:  # of a store that the suite leaves out, perhaps
                add(store for store in known_stores if store not in own)
            if name not in models:
                raise UserError(
                    f"no store has the search parameter '{name}'",
                    where=here,
                    remedy=suggestion(name, models),
                )
            if values == []:
                raise UserError("the list is empty", where=f"{here}.{name}")
            for value in values if isinstance(values, list) else [values]:
                faults = [_fault(model, name, value) for model in models[name]]
                if faults and all(faults):
                    raise UserError(f"'{name}' = {value!r}: {faults[0]}", where=here)


def _fault(model: type[Params], name: str, value: object) -> str:
    """The fault of a value of a parameter; empty if it is valid."""
    try:
        model.model_validate({name: value})
    except ValidationError as error:
        return next((str(f["msg"]) for f in error.errors() if f["loc"][:1] == (name,)), "")
    return ""
