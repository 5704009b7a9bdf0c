"""No text of a run is a path: whatever a run says, its report and its site stay in their folder."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from synthetic_runs import write_run

from vectrial.analysis.run_data import load
from vectrial.document.blocks import Figure, Table
from vectrial.document.render import write
from vectrial.report.build import build as report_of
from vectrial.site.build import Options, build
from vectrial.util.file_names import file_name, legible, slug

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


@pytest.mark.slow
@pytest.mark.parametrize("up", ["absolute", "../" * 6])
def test_a_forged_run_changes_nothing_outside_its_report_and_site(tmp_path: Path, up: str) -> None:
    deepest = tmp_path.joinpath(*"abcdef")
    deepest.mkdir(parents=True)
    for folder in (deepest, *deepest.parents):  # something to overwrite, wherever a path leads
        if folder.is_relative_to(tmp_path):
            for suffix in SUFFIXES:
                (folder / f"settings.{suffix}").write_text("mine")
    runs, out = deepest / "runs", deepest / "out"
    run = write_run(runs / "forged", repeats=1, stores={"faiss": (1.0, "hnsw", True)})
    forge(run, str(tmp_path / "settings") if up == "absolute" else f"{up}settings")
    before = files(tmp_path)
    document = report_of(load(run))
    report = write.made(out / "report")
    write.write_figures(document, report)
    write.write_csv(document, run, report)
    (result,) = build([runs], out / "site", Options(figures=1), lambda done, of, what: None)
    assert not result.why, "the run is shown all the same"
    after = files(tmp_path)
    assert {name: after.pop(name) for name in before} == before, "a file was overwritten"
    inside = tuple(f"a/b/c/d/e/f/out/{name}/" for name in ("report", "site"))
    assert [name for name in after if not name.startswith(inside)] == []
    assert any("/csv/" in name and "settings" in name for name in after), "its tables are written"


PATHS = ("../../x", "/etc/x", "a/b", "..", ".", ".hidden", "-rf", "a\\b", "a b", "\x00", "\udcff")


@pytest.mark.parametrize("text", [*PATHS, "", "é" * 300, "x" * 300])
def test_a_file_name_is_made_of_any_text(text: str) -> None:
    for name in (file_name(text), Table(text, "", (), ()).name, slug(text)):
        assert Path("folder", f"{name}.csv").parent == Path("folder")
        assert name
        assert not name.startswith((".", "-"))
        assert len(name) <= 100
        assert name.isascii()
    assert Figure(text, "", "", "", lambda width, legend: {}).name == file_name(text)
    assert not set("/\\\x00 ") & set(legible(text))


def test_texts_that_differ_have_files_that_differ() -> None:
    assert len({file_name(text) for text in ("a/b", "a b", "a-b", "a\\b", "A-b")}) == 5
    assert file_name("recall-qps_2.5") == "recall-qps_2.5"
