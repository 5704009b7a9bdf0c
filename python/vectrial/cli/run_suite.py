"""The suite that `vectrial run` measures: of a file, of a run folder, or of a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from vectrial.datasets import catalog
from vectrial.model.errors import UserError
from vectrial.run.prepare import RESOLVED, Fingerprints
from vectrial.suite import shipped
from vectrial.suite.model import Suite, parse_suite, suite_text
from vectrial.util.suggest import suggestion


@dataclass(frozen=True)
class SuiteSource:
    """A suite and its origin.

    text: text of its file. where: the file, for messages. same: fingerprints that its datasets must
        have. seal: seal of its bundle, if it comes from a bundle.
    """

    suite: Suite
    text: str
    where: str
    same: Fingerprints = field(default_factory=dict)
    seal: str = ""

    def restricted(self, stores: Sequence[str], repeats: int | None) -> SuiteSource:
        """The suite reduced to these stores (all if none is named), and with `repeats` unless None.

        Raises:
            UserError: it has no such store, or no experiment for these stores.
        """
        suite = self.suite
        if repeats is not None:
            suite = suite.repeated(repeats, "--repeats")
        known = {name for ref in suite.stores for name in (ref.store, ref.name)}
        for name in stores:
            if name not in known:
                raise UserError(
                    f"the suite has no store '{name}'",
                    where=self.where,
                    remedy=suggestion(name, known),
                )
        if stores:
            suite = suite.only(stores)
            if not suite.experiments:
                raise UserError(
                    f"the suite has no experiment for {' and '.join(stores)}",
                    where=self.where,
                    remedy="its experiments name the stores that they are for",
                )
        return replace(self, suite=suite)


def find_suite(
    path: Path | None, resume: Path | None, sealed: Path | None, seal: str | None = None
) -> SuiteSource:
    """The suite from exactly one source: a file, a run folder or a bundle.

    path: a file, or the name of a suite that comes with Vectrial. seal: the bundle's expected seal.

    Raises:
        UserError: it cannot be read, the bundle has another seal, or a dataset is not available.
    """
    if seal is not None and sealed is None:
        raise UserError("only a bundle has a seal", where="--seal", remedy="--from FILE names one")
    sources = [source for source in (path, resume, sealed) if source is not None]
    if len(sources) != 1:
        raise UserError(
            "a SUITE, --resume and --from exclude each other" if sources else "no suite given",
            remedy="vectrial run demo, vectrial run FILE.toml; these come with Vectrial:"
            f" {', '.join(shipped.names())}",
        )
    if sealed is not None:
        return _of_bundle(sealed, seal)
    if resume is not None:
        path = resume / RESOLVED
        if not path.is_file():
            raise UserError("there is no run here to resume", where=str(resume))
    else:
        assert path is not None
        path = shipped.file_of(path)
    text = suite_text(path)
    return SuiteSource(parse_suite(text, str(path)), text, str(path))


def _of_bundle(sealed: Path, seal: str | None) -> SuiteSource:
    # Imported here: the readers of results take a while.
    from vectrial.results.bundle import opened
    from vectrial.results.reader import RunReader

    with opened(sealed, seal) as (bundle, folder):
        path = folder / RESOLVED
        if not path.is_file():
            raise UserError(
                f"the bundle holds no {RESOLVED}", where=str(sealed), remedy="have it sealed anew"
            )
        text = path.read_text(encoding="utf-8")
        suite = parse_suite(text, f"{sealed}: {RESOLVED}")
        with RunReader(folder) as reader:
            rows = reader.rows("select name, rows, fingerprint, metric_space, source from dataset")
    _check_datasets(suite, rows, sealed)
    same = {(row["name"], row["rows"]): row["fingerprint"] for row in rows}
    return SuiteSource(suite, text, str(sealed), same, bundle.seal)


def _check_datasets(suite: Suite, measured: Sequence[Mapping[str, Any]], sealed: Path) -> None:
    """Raise `UserError` for a dataset that is neither in the library nor in the catalogue.

    measured: the datasets of the bundle's run, for the message.
    """
    known = {row["name"]: row for row in measured}
    for ref in suite.datasets:
        if catalog.knows(ref.name):
            continue
        row = known.get(ref.name)
        made = f" (made of {row['source']})" if row else ""
        metric = f" --metric {row['metric_space']}" if row else ""
        raise UserError(
            f"the run measured dataset '{ref.name}'{made}, which is neither here nor in the"
            " catalogue; a bundle holds no data",
            where=str(sealed),
            remedy="ask for the data as well, and import them with the same options:"
            f" `vectrial data import FILE --name {ref.name}{metric} …`;"
            " the fingerprint tells whether they are the same",
        )
