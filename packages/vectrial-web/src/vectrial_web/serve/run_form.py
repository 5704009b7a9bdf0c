"""The form that starts a run: what can be chosen, and from what is filled in to a suite's plan."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from vectrial.datasets import catalog, library
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import UserError, VectrialError
from vectrial.plan.checks import plan_warnings
from vectrial.plan.model import Plan
from vectrial.plan.quick import Contender, plain_suite
from vectrial.results.folder import is_own
from vectrial.run import exposure
from vectrial.run.plan_summary import PlanSummary, summarize
from vectrial.run.prepare import check_machine, plan_of, shape_of, toml_of
from vectrial.stores import registry
from vectrial.suite import builtin
from vectrial.suite.model import DatasetRef, Suite, parse_suite, suite_text
from vectrial.suite.validation import faults_of
from vectrial.util.suggest import suggestion


@dataclass(frozen=True)
class StoreChoice:
    """A store in the form. indexes: kinds of its indexes, the default first. works: False if it
    does not work, with the reason; None if its first use prepares something, with what that is."""

    name: str
    indexes: tuple[str, ...]
    works: bool | None
    reason: str


@dataclass(frozen=True)
class ExperimentChoice:
    """An experiment. parameters: with their defaults, as in a suite."""

    name: str
    title: str
    about: str
    parameters: tuple[str, ...]


def suites(root: Path) -> dict[str, Path]:
    """Suite files by their names in a form: first the suites in the folder served, newest first,
    then the shipped ones. Links that lead out of their folder are left out."""
    own = [path for path in root.glob("*.toml") if is_own(root, path)]
    own.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    with_vectrial = {f"suites/{path.name}": path for path in builtin.files().values()}
    return {path.name: path for path in own} | with_vectrial


def stores() -> list[StoreChoice]:
    """Every store: first the stores that work here, then those that prepare something on first use,
    then those that do not work."""
    order = (True, None, False)
    found = [_store(name) for name in registry.names()]
    return sorted(found, key=lambda one: (order.index(one.works), one.name))


def _store(name: str) -> StoreChoice:
    try:
        store = registry.load(name)
        available = registry.availability(store)
    except VectrialError as error:  # a broken plug-in, or a variable that makes no sense
        return StoreChoice(name, (), False, str(error))
    can = store.capabilities
    default = can.preferred_index()
    indexes = (default, *(label for label in can.indexes if label != default))
    return StoreChoice(name, indexes, available.works, available.reason)


def experiments() -> list[ExperimentChoice]:
    """Every experiment that can be loaded."""
    kinds, _ = EXPERIMENTS.working()
    return [
        ExperimentChoice(kind.name, kind.title, kind.summary(), _defaults(kind.defaults()))
        for kind in kinds.values()
    ]


def _defaults(defaults: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"{name} = {json.dumps(value, default=str)}" for name, value in defaults.items())


def datasets() -> dict[str, str]:
    """Datasets by name with a short description, those of the library first."""
    here = library.names()
    found = dict.fromkeys(sorted(here), "in the library")
    for entry in catalog.entries():
        if entry.name not in here:
            size = f", {entry.cost.download_mb:,.0f} MB to fetch" if entry.cost.download_mb else ""
            found[entry.name] = f"{entry.rows:,} × {entry.dim}{size}"
    return found


#: Place of a fault in the messages of plans: an entry of the suite.
_ENTRY = re.compile(r"\b(datasets|stores|experiments)\[\d+\]")


@dataclass(frozen=True)
class FormInput:
    """A form as it was filled in.

    kind: "file" for a suite file, or "parts" for a suite made from parts. suite: name of the file.
        indexes: kind of index by store. seen: digest of the suite whose plan was shown.
    """

    kind: Literal["file", "parts"] = "parts"
    suite: str = ""
    name: str = "mine"
    dataset: str = ""
    rows: str = ""
    repeats: str = ""
    stores: Sequence[str] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    experiments: Sequence[str] = ()
    seen: str = ""

    @classmethod
    def parse(cls, values: Mapping[str, Sequence[str]]) -> FormInput:
        """The form from the values of its fields."""

        def one(name: str) -> str:
            return next(iter(values.get(name, ())), "").strip()

        prefix = "index-"
        return cls(
            kind="file" if one("kind") == "file" else "parts",
            suite=one("suite"),
            name=one("name"),
            dataset=one("dataset"),
            rows=one("rows"),
            repeats=one("repeats"),
            stores=tuple(dict.fromkeys(values.get("store", ()))),
            indexes={
                key.removeprefix(prefix): one(key) for key in values if key.startswith(prefix)
            },
            experiments=tuple(dict.fromkeys(values.get("experiment", ()))),
            seen=one("seen"),
        )

    def fields(self) -> list[tuple[str, str]]:
        """Names and values of the fields, for sending the form again."""
        if self.kind == "file":
            own = [("suite", self.suite)]
        else:
            own = [("name", self.name), ("dataset", self.dataset), ("rows", self.rows)]
            own += [("store", one) for one in self.stores]
            own += [(f"index-{one}", self.indexes.get(one, "")) for one in self.stores]
            own += [("experiment", one) for one in self.experiments]
        return [("kind", self.kind), ("repeats", self.repeats), *own]


class FormFaults(Exception):
    """A form that makes no run. fields: messages by field; "" for the form as a whole."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__("; ".join(fields.values()))
        self.fields = fields


@dataclass(frozen=True)
class PlannedForm:
    """The suite of a form and its plan. text: text of the suite's file. notes: sentences to read
    before the start. fault: why this machine cannot measure it; empty if it can."""

    suite: Suite
    text: str
    summary: PlanSummary
    notes: tuple[str, ...]
    fault: str = ""

    @property
    def digest(self) -> str:
        """Digest of the suite, equal for equal suites."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


def plan_form(form: FormInput, root: Path) -> PlannedForm:
    """The plan of a form on this machine. root: the folder served.

    Raises:
        FormFaults: it makes no suite, or no plan; messages by field.
    """
    from_file = form.kind == "file"
    suite, text = _suite_of_file(form, root) if from_file else _suite_of_parts(form)
    try:
        plan = plan_of(suite, form.suite if from_file else "suite")
        found = with_machine_notes(suite, text, plan)
    except VectrialError as error:
        if from_file:
            raise FormFaults({"suite": str(error)}) from error
        entry = _ENTRY.search(error.where) if isinstance(error, UserError) else None
        where = entry[1].removesuffix("s") if entry else ""
        raise FormFaults({where: _message(error)}) from error
    if not (plan.trials or found.fault):
        return replace(found, fault="Every trial is skipped: there is nothing to measure.")
    return found


def with_machine_notes(suite: Suite, text: str, plan: Plan) -> PlannedForm:
    """A plan with the notes to read before it is started here.

    Raises:
        VectrialError: what the environment says of a store's server makes no sense.
    """
    notes, fault = [*plan_warnings(plan), *_downloads(plan)], ""
    try:
        check_machine(plan)
        exposure.check(plan.servers, notes.append, allow_exposed=False)
    except UserError as error:
        fault = str(error)
    return PlannedForm(suite, text, summarize(plan), tuple(notes), fault)


def _downloads(plan: Plan) -> Iterator[str]:
    """Notes on downloads that come before the measurement."""
    here = library.names()
    for name in dict.fromkeys(ref.name for ref in plan.datasets):
        if name not in here and (size_mb := catalog.entry(name).cost.download_mb):
            yield f"The dataset {name} is not in the library: {size_mb:,.0f} MB are fetched first."


def _suite_of_file(form: FormInput, root: Path) -> tuple[Suite, str]:
    path = suites(root).get(form.suite)
    if path is None:
        raise FormFaults({"suite": "there is no such suite file; choose one of the list"})
    try:
        text = suite_text(path)
        suite = parse_suite(text, form.suite)
    except UserError as error:
        raise FormFaults({"suite": str(error)}) from error
    if not form.repeats:
        return suite, text
    plain = {**suite.model_dump(), "repeats": _number(form.repeats)}
    for _, message in faults_of(Suite, plain):
        raise FormFaults({"repeats": message})
    changed = Suite.model_validate(plain)
    return (suite, text) if changed == suite else (changed, toml_of(changed))


def _suite_of_parts(form: FormInput) -> tuple[Suite, str]:
    dataset_entry = {"name": form.dataset, **_number_field("rows", form.rows)}
    contenders = [_contender(name, form.indexes.get(name)) for name in form.stores]
    plain: dict[str, Any] = {
        **plain_suite(form.name, dataset_entry, contenders, _experiments(form)),
        **_number_field("repeats", form.repeats),
    }
    needed = (("store", form.stores), ("experiment", form.experiments))
    faults = {name: f"choose at least one {name}" for name, chosen in needed if not chosen}
    for path, message in faults_of(Suite, plain):
        faults.setdefault(_field_at(path), message)
    if faults:
        raise FormFaults(faults)
    suite = Suite.model_validate(plain)
    (dataset,) = suite.datasets
    for name, ref in (("dataset", DatasetRef(name=dataset.name)), ("rows", dataset)):
        try:
            shape_of(ref)
        except UserError as error:
            raise FormFaults({name: _message(error)}) from error
    return suite, toml_of(suite)


def _contender(name: str, index: str | None) -> Contender:
    """A store with the chosen kind of index, or its default.

    Raises:
        FormFaults: there is no such store, or it has no such index.
    """
    try:
        store = registry.load(name)
    except VectrialError as error:
        raise FormFaults({"store": _message(error)}) from error
    can = store.capabilities
    chosen = index or can.preferred_index()
    if chosen not in can.indexes:
        raise FormFaults({"store": f"{name} has no index '{chosen}'"})
    return Contender(store, chosen)


def _experiments(form: FormInput) -> Sequence[str]:
    for name in form.experiments:
        if name not in EXPERIMENTS:
            near = suggestion(name, EXPERIMENTS)
            raise FormFaults({"experiment": f"'{name}' is not an experiment ({near})"})
    return form.experiments


def _number_field(name: str, text: str) -> dict[str, object]:
    return {name: _number(text)} if text else {}


def _number(text: str) -> object:
    """A number from a form. Other text is returned unchanged, and the suite's model refuses it."""
    plain = text.replace(",", "").replace("_", "")
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 20 else text


def _field_at(path: Sequence[str | int]) -> str:
    """The form field that sets a part of a suite."""
    match path:
        case ("datasets", _, "rows"):
            return "rows"
        case (("datasets" | "stores" | "experiments") as part, *_):
            return part.removesuffix("s")
        case (("name" | "repeats") as name, *_):
            return name
    return ""


def _message(error: VectrialError) -> str:
    """The error's message without its place, since the field is the place."""
    if not isinstance(error, UserError):
        return str(error)
    return f"{error.what} ({error.remedy})" if error.remedy else error.what
