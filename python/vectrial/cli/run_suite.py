"""Which suite `vectrial run` measures: that of a file, of a run to go on with, or of a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vectrial.datasets import catalog
from vectrial.model.errors import UserError
from vectrial.results.bundle import opened
from vectrial.results.reader import RunReader
from vectrial.run.prepare import RESOLVED, Fingerprints
from vectrial.suite.model import Suite, parse_suite, suite_text
from vectrial.util.suggest import suggestion


@dataclass(frozen=True)
class Wanted:
    """A suite to be measured.

    text: of its file. where: that file, for messages. same: what its datasets must be; any where
    it is empty. seal: of the bundle that it comes from; empty where it comes from none.
    """

    suite: Suite
    text: str
    where: str
    same: Fingerprints = field(default_factory=dict)
    seal: str = ""

    def restricted(self, only: Sequence[str], repeats: int | None) -> Wanted:
        """Its stores named in `only`, unless that is empty, so often as `repeats` says.

        Raises:
            UserError: it has no such store, or asks nothing of it.
        """
        suite = self.suite
        if repeats is not None:
            suite = suite.repeated(repeats, "--repeats")
        known = {ref.store for ref in suite.stores}
        for name in only:
            if name not in known:
                raise UserError(
                    f"the suite has no store '{name}'",
                    where=self.where,
                    remedy=suggestion(name, known),
                )
        if only:
            suite = suite.only(only)
            if not suite.experiments:
                raise UserError(
                    f"the suite asks nothing of {' and '.join(only)}",
                    where=self.where,
                    remedy="its experiments name the stores that they are for",
                )
        return replace(self, suite=suite)


def find_suite(
    path: Path | None, resume: Path | None, sealed: Path | None, seal: str | None = None
) -> Wanted:
    """The suite of a file, of a run's folder or of a bundle, of which one is given.

    seal: what the bundle's must be; any unless given.

    Raises:
        UserError: it cannot be read, the bundle has another seal, or its data are neither here nor
            to be had.
    """
    if seal is not None and sealed is None:
        raise UserError("only a bundle has a seal", where="--seal", remedy="--from FILE names one")
    if sum(given is not None for given in (path, resume, sealed)) != 1:
        none = path is None and resume is None and sealed is None
        raise UserError(
            "no suite given" if none else "a SUITE, --resume and --from exclude each other",
            remedy="vectrial run suites/demo.toml",
        )
    if path is not None:
        return _of_file(path)
    if resume is not None:
        if not (resume / RESOLVED).is_file():
            raise UserError("there is no run here to resume", where=str(resume))
        return _of_file(resume / RESOLVED)
    assert sealed is not None
    return _of_bundle(sealed, seal)


def _of_file(path: Path) -> Wanted:
    text = suite_text(path)
    return Wanted(parse_suite(text, str(path)), text, str(path))


def _of_bundle(sealed: Path, seal: str | None) -> Wanted:
    with opened(sealed, seal) as (bundle, folder):
        kept = folder / RESOLVED
        if not kept.is_file():
            raise UserError(
                f"the bundle holds no {RESOLVED}", where=str(sealed), remedy="have it sealed anew"
            )
        text = kept.read_text(encoding="utf-8")
        suite = parse_suite(text, f"{sealed}: {RESOLVED}")
        with RunReader(folder) as reader:
            rows = reader.rows("select name, rows, fingerprint, metric_space, source from dataset")
    _require_here(suite, rows, sealed)
    same = {(row["name"], row["rows"]): row["fingerprint"] for row in rows}
    return Wanted(suite, text, str(sealed), same, bundle.seal)


def _require_here(suite: Suite, measured: Sequence[Mapping[str, Any]], sealed: Path) -> None:
    """Refuse a bundle whose data cannot be had here, saying how they are: it does not hold them.

    measured: the run's datasets.
    """
    known = {row["name"]: row for row in measured}
    for name in [ref.name for ref in suite.datasets if not catalog.knows(ref.name)]:
        row = known.get(name)
        made = f" (made of {row['source']})" if row else ""
        metric = f" --metric {row['metric_space']}" if row else ""
        raise UserError(
            f"the run measured dataset '{name}'{made}, which is neither here nor in the catalogue;"
            " a bundle holds no data",
            where=str(sealed),
            remedy="have the data sent as well, and import them with the options that they were"
            f" imported with there: `vectrial data import FILE --name {name}{metric} …`;"
            " the fingerprint tells whether they are the same",
        )
