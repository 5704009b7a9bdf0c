"""A run whose every text is a path, amid files that it could overwrite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from synthetic_runs import write_run

#: Text that is checked when a run is read, or that rows are told apart by.
FIXED = {
    "dataset.fingerprint", "dataset.metric_space", "gate.name", "metric.name", "run.run_id",
    "trial.key", "trial.load", "trial.metric_space", "trial.status",
}  # fmt: skip
LISTS = ("differences", "messages", "notes")
#: Half the trials keep their experiment: they are shown in the sections of those known here.
SOME = {"trial.experiment": "where trial_id % 2 = 0"}
SUFFIXES = ("csv", "html", "json", "parquet", "png", "svg", "tar.gz")


def forge(folder: Path, path: str) -> None:
    """Replace every text of a run by a path."""
    values = json.dumps({path: path, "ef_search": path, "predicate": path})
    with duckdb.connect(str(folder / "run.duckdb")) as db:
        columns = db.execute(
            "select table_name, column_name, data_type from information_schema.columns"
            " where data_type in ('VARCHAR', 'JSON')"
        ).fetchall()
        for table, column, kind in columns:
            name = f"{table}.{column}"
            if name not in FIXED:
                text = json.dumps([path]) if column in LISTS else values
                where = SOME.get(name, "")
                db.execute(
                    f'update "{table}" set "{column}" = ? {where}',
                    [path if kind == "VARCHAR" else text],
                )
    (folder / "suite.toml").write_text(f"name = {json.dumps(path)}\n")
    (folder / "environment.json").write_text(values)


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    every = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in every}


@contextmanager
def forged(folder: Path, up: str) -> Iterator[tuple[Path, Path]]:
    """A forged run and a folder to write into; fails if anything outside that folder changed. up:
    what the paths begin with, or "absolute"."""
    deepest = folder.joinpath(*"abcdef")
    deepest.mkdir(parents=True)
    for place in (deepest, *deepest.parents):  # something to overwrite, wherever a path leads
        if place.is_relative_to(folder):
            for suffix in SUFFIXES:
                (place / f"settings.{suffix}").write_text("mine")
    run = write_run(deepest / "runs/forged", repeats=1, stores={"faiss": (1.0, "hnsw", True)})
    forge(run, str(folder / "settings") if up == "absolute" else f"{up}settings")
    before = files(folder)
    yield run, deepest / "out"
    after = files(folder)
    assert {name: after.pop(name) for name in before} == before, "a file was overwritten"
    assert [name for name in after if not name.startswith("a/b/c/d/e/f/out/")] == []
    assert any("settings" in name for name in after), "its tables are written"
