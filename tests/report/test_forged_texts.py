"""No text of a run is a path: whatever a run says, its report stays in its folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from forged_runs import forged

from vectrial.analysis.run_data import load
from vectrial.document.blocks import Figure, Table
from vectrial.document.render import export
from vectrial.report.build import build as report_of
from vectrial.util.file_names import file_name, legible_name, slug


@pytest.mark.slow
@pytest.mark.parametrize("up", ["absolute", "../" * 6])
def test_a_forged_run_changes_nothing_outside_its_report(tmp_path: Path, up: str) -> None:
    with forged(tmp_path, up) as (run, out):
        document = report_of(load(run))
        report = export.make_folder(out)
        export.write_figures(document, report)
        export.write_csv(document, run, report)
        assert any("settings" in path.name for path in out.rglob("csv/*"))


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
    assert not set("/\\\x00 ") & set(legible_name(text))


def test_texts_that_differ_have_files_that_differ() -> None:
    assert len({file_name(text) for text in ("a/b", "a b", "a-b", "a\\b", "A-b")}) == 5
    assert file_name("recall-qps_2.5") == "recall-qps_2.5"
