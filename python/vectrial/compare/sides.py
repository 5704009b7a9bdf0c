"""The two sides of a comparison: runs or stores of runs, and the pairs of their series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from vectrial.analysis.run_data import RunData, load
from vectrial.analysis.trial import Trial, stable_text
from vectrial.model.errors import UserError
from vectrial.util.formatting import plural
from vectrial.util.suggest import suggestion


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a run, or one store (and index) of it, or all."""

    run: RunData
    store: str | None = None
    index: str | None = None

    @property
    def name(self) -> str:
        """Readable name of the side: as on the command line, with the folder by its last part."""
        return ":".join(part for part in (self.run.folder.name, self.store, self.index) if part)


@dataclass(frozen=True)
class ComparedStore:
    """The pair of stores that are compared, with one kind of index on each side, in every lane.

    title: readable name of the pair.
    """

    a: tuple[Trial, ...]
    b: tuple[Trial, ...]
    run_a: RunData
    run_b: RunData
    title: str

    @cached_property
    def is_same_work(self) -> bool:
        """True if both sides have the same version of the same store, measured by the same
        Vectrial: in the native lane, the client then does the same work for each answer of both."""
        trials = (*self.a, *self.b)
        stores = {
            (t.series.store, t.series.index_kind, t.store_version) for t in trials if t.phases
        }
        fields = ("vectrial_version", "git_revision")
        clients = {tuple(run.run[name] for name in fields) for run in (self.run_a, self.run_b)}
        return len(stores) == len(clients) == 1

    @cached_property
    def in_turns(self) -> bool:
        """True if both sides alternated by repeat: each repeat had begun on both sides before the
        next began on either, in one run or in two that were resumed alternately."""
        began: dict[int, list[float]] = {}
        for trial in (*self.a, *self.b):
            if trial.began_s is not None:
                began.setdefault(trial.repeat, []).append(trial.began_s)
        rounds = [began[repeat] for repeat in sorted(began)]
        return all(max(one) < min(after) for one, after in pairwise(rounds))

    @cached_property
    def repeat_s(self) -> float:
        """Seconds that one more repeat of both would take, estimated from their loads and
        phases."""
        trials = (*self.a, *self.b)
        built = [
            (t.series, t.dataset, t.rows, stable_text(t.index_params), t.repeat) for t in trials
        ]
        loads = {key: t.load.get("ready_s", 0) for key, t in zip(built, trials, strict=True)}
        repeats = max((t.repeat for t in trials), default=1)
        return (sum(t.span_s for t in trials) + sum(loads.values())) / repeats


def sides_of(first: str, second: str | None, stores: Sequence[str]) -> tuple[Side, Side]:
    """The two sides named on a command line.

    Args:
        first, second: RUN, RUN:STORE or RUN:STORE:INDEX.
        stores: two stores of `first` without `second`; otherwise one store of both; or none.

    Raises:
        UserError: no such run, store or index; or there is nothing to compare with.
    """
    if second is None and stores:
        if len(stores) != 2:
            raise UserError(
                f"--store is given {plural(len(stores), 'time')}, and two stores of a run are"
                " compared",
                remedy="--store A --store B",
            )
        run = load(Path(first))
        return _side(run, stores[0]), _side(run, stores[1])
    path, store = _split(first)
    run = load(path)
    if second is not None:
        other_path, other_store = _split(second)
        if stores:
            if store or other_store or len(stores) > 1:
                raise UserError(
                    "--store names one store of both runs",
                    remedy="give it once, or name stores as RUN:STORE",
                )
            store = other_store = stores[0]
        same = other_path.resolve() == path.resolve()
        return pair(run, store, run if same else load(other_path), other_store)
    if store is None and len(run.stores) == 2:
        return _side(run, run.stores[0]), _side(run, run.stores[1])
    raise UserError(
        "one run and nothing to compare it with",
        where=first,
        remedy=f"give another run, or two of its stores: {_describe_run(run)}",
    )


def pair(
    run: RunData, store: str | None, other: RunData, other_store: str | None
) -> tuple[Side, Side]:
    """The two sides: each a run, or its store (and index) named by STORE or STORE:INDEX.

    Raises:
        UserError: no such store or index, or both are the same run.
    """
    sides = _side(run, store), _side(other, other_store)
    if run.folder == other.folder and sides[0].store is None and sides[1].store is None:
        raise UserError(
            "both are the same run",
            where=run.folder.name,
            remedy=f"name two of its stores: {_describe_run(run)}",
        )
    return sides


def _describe_run(run: RunData) -> str:
    stores = run.stores
    pair = " ".join(f"--store {name}" for name in stores[:2])
    names = pair if len(stores) > 1 else "it has one alone"
    return f"{names} (it has {', '.join(stores)})"


def _split(text: str) -> tuple[Path, str | None]:
    """Split off the run's folder from what follows: a folder may have a colon in its name."""
    if Path(text).exists():
        return Path(text), None
    folder, colon, rest = text.partition(":")
    while colon:
        if Path(folder).exists():
            return Path(folder), rest
        more, colon, rest = rest.partition(":")
        folder = f"{folder}:{more}"
    path, _, rest = text.partition(":")
    return Path(path), rest or None  # reading it reports the fault


def _side(run: RunData, selector: str | None) -> Side:
    if selector is None:
        return Side(run)
    store, _, index = selector.partition(":")
    if store not in run.stores:
        raise UserError(
            f"the run has no store '{store}'",
            where=str(run.folder),
            remedy=suggestion(store, run.stores),
        )
    kinds = _kinds(run, store)
    if index and index not in kinds:
        raise UserError(
            f"the run has no index '{index}' of {store}",
            where=str(run.folder),
            remedy=suggestion(index, kinds),
        )
    return Side(run, store, index or None)


def _kinds(run: RunData, store: str) -> list[str]:
    return list(dict.fromkeys(t.series.index_kind for t in run.trials if t.series.store == store))


def subjects(a: Side, b: Side) -> tuple[list[ComparedStore], list[str]]:
    """The pairs to compare, and a line for each store that only one side has.

    For two runs, each store is compared with itself; for two stores, each kind of index that both
    have, or the only ones they have.

    Raises:
        UserError: the two have nothing that could be compared, or several things that could.
    """
    if a.store is None and b.store is None:
        return _store_pairs(a, b)
    # One names a store and the other only a run: the same store is meant.
    a = a if a.store is not None else _side(a.run, b.store)
    b = b if b.store is not None else _side(b.run, a.store)
    assert a.store is not None
    assert b.store is not None
    pairs = _index_pairs(a, b)
    found = []
    for kind_a, kind_b in pairs:
        title_a, title_b = a.store, b.store
        if len(pairs) > 1 or kind_a != kind_b or a.store == b.store:
            title_a, title_b = f"{a.store} {kind_a}", f"{b.store} {kind_b}"
        title = title_a if title_a == title_b else f"{title_a} → {title_b}"
        found.append(_subject(a, b, (a.store, kind_a), (b.store, kind_b), title))
    return found, []


def _index_pairs(a: Side, b: Side) -> list[tuple[str, str]]:
    kinds_a = [a.index] if a.index else _kinds(a.run, str(a.store))
    kinds_b = [b.index] if b.index else _kinds(b.run, str(b.store))
    itself = a.run.folder == b.run.folder and a.store == b.store
    if itself and kinds_a == kinds_b and len(kinds_a) == 1:
        raise UserError("both are the same store of the same run", where=a.name)
    if len(kinds_a) == len(kinds_b) == 1:
        return [(kinds_a[0], kinds_b[0])]
    common = [] if itself else [kind for kind in kinds_a if kind in kinds_b]
    if not common:
        raise UserError(
            f"which index of {a.store} ({', '.join(kinds_a)}) goes with which of {b.store}"
            f" ({', '.join(kinds_b)})?",
            remedy=f"name them: RUN:{a.store}:{kinds_a[0]} RUN:{b.store}:{kinds_b[-1]}",
        )
    return [(kind, kind) for kind in common]


def _store_pairs(a: Side, b: Side) -> tuple[list[ComparedStore], list[str]]:
    here = [list(dict.fromkeys(_identity(t) for t in s.run.trials)) for s in (a, b)]
    found = [
        _subject(a, b, one, one, " ".join(part for part in one if part))
        for one in here[0]
        if one in here[1]
    ]
    if not found:
        raise UserError(
            f"no store and index in common: {_list_identities(here[0])};"
            f" and {_list_identities(here[1])}",
            remedy="name what goes with what: RUN:STORE RUN:STORE",
        )
    alone = [
        f"{' '.join(one)}: only in {side.run.folder.name}"
        for side, own, other in ((a, here[0], here[1]), (b, here[1], here[0]))
        for one in own
        if one not in other
    ]
    return found, alone


def _identity(trial: Trial) -> tuple[str, str]:
    return trial.series.store, trial.series.index_kind


def _list_identities(identities: Iterable[tuple[str, str]]) -> str:
    return ", ".join(dict.fromkeys(" ".join(one) for one in identities))


def _subject(
    a: Side, b: Side, identity_a: tuple[str, str], identity_b: tuple[str, str], title: str
) -> ComparedStore:
    return ComparedStore(
        tuple(t for t in a.run.trials if _identity(t) == identity_a),
        tuple(t for t in b.run.trials if _identity(t) == identity_b),
        a.run,
        b.run,
        title,
    )
