"""The note on a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_calls import call
from synthetic_runs import STORES, write_run

from vectrial.analysis.run_data import load
from vectrial.compare import document
from vectrial.compare import formats as compared_jsonl
from vectrial.compare.build import compare
from vectrial.compare.cells import CompareOptions
from vectrial.compare.sides import sides_of
from vectrial.document.render import html, markdown
from vectrial.model.errors import UserError
from vectrial.model.results_schema import METRICS
from vectrial.report.build import build
from vectrial.results import bundle, note

TEXT = "new <b>disk</b>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "one"
    write_run(folder, repeats=1, stores={"faiss": STORES["faiss"]}, only_sweep=True)
    (folder / "suite.toml").write_text('name = "demo"\n')
    return folder


@pytest.fixture(autouse=True)
def _without(run: Path) -> None:
    note.write(run, "")


def test_a_note_is_added_to_replaced_and_removed(run: Path) -> None:
    assert note.read(run) == ""
    note.add(run, " one\n")
    note.add(run, "two")
    note.add(run, "one")  # as a resumed run says it again
    assert note.read(run) == "one\n\ntwo"
    note.write(run, "three")
    assert note.read(run) == "three"
    note.write(run, "")
    assert not (run / note.NOTE).exists()


def test_a_note_is_clean_and_has_an_end(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note.write(run, "a\x1b[31mb")
    assert note.read(run) == "a\ufffd[31mb"
    with pytest.raises(UserError, match="has 10,001 characters"):
        note.write(run, "a" * 10_001)
    (run / note.NOTE).write_bytes(b"\xff" + b"a" * 20_000)
    assert len(note.read(run)) == note.LONGEST
    monkeypatch.setenv("VECTRIAL_WEAVIATE_API_KEY", "s3cr3t-of-the-server")
    note.write(run, "with s3cr3t-of-the-server")
    assert "s3cr3t" not in (run / note.NOTE).read_text()


def test_a_link_out_of_the_folder_is_not_read(run: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (run / note.NOTE).symlink_to(tmp_path / "secret")
    assert note.read(run) == ""


def test_a_report_begins_with_it(run: Path) -> None:
    assert 'class="run-note"' not in html.render(build(load(run)))
    note.write(run, f"{TEXT}\n\nsecond")
    report = build(load(run))
    assert report.note == f"{TEXT}\n\nsecond"
    page = html.render(report)
    assert '<p class="run-note">new &lt;b&gt;disk&lt;/b&gt;\n\nsecond</p>' in page
    text = markdown.render(report)
    assert "> new \\<b\\>disk\\</b\\>\n\n> second\n" in text
    assert text.index("> second") < text.index("Measured")


def test_a_comparison_has_those_of_both(run: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "two", repeats=1, stores={"faiss": STORES["faiss"]},
                      only_sweep=True)  # fmt: skip
    note.write(run, TEXT)
    note.write(other, "old disk")
    what = CompareOptions((METRICS["qps"],), (), ())
    comparison = compare(*sides_of(str(run), str(other), ()), what, 0.05)
    for made in (document.report(comparison), document.comment(comparison)):
        assert made.note == f"A: {TEXT}\n\nB: old disk"
    notes = [one for one in compared_jsonl.objects(comparison) if one["kind"] == "note"]
    assert [(one["side"], one["reason"]) for one in notes] == [("a", TEXT), ("b", "old disk")]
    note.write(other, "")
    comparison = compare(*sides_of(str(run), str(other), ()), what, 0.05)
    assert document.report(comparison).note == f"A: {TEXT}"


def test_a_bundle_holds_the_note_of_its_sealing(run: Path, tmp_path: Path) -> None:
    bare = bundle.seal(run, tmp_path / "bare.vectrial.tar.gz")
    note.write(run, TEXT)
    sealed = bundle.seal(run, tmp_path / "sealed.vectrial.tar.gz")
    assert bare.seal != sealed.seal
    note.write(run, "later")
    assert load(bare.path).note == ""
    assert load(sealed.path).note == TEXT
    refused = call("note", sealed.path, "other")
    assert refused.code == 2
    assert "the note of a sealed bundle cannot be changed" in refused.err
    assert call("note", sealed.path).out == f"{TEXT}\n"


def test_the_command(run: Path, tmp_path: Path) -> None:
    assert call("note", run, "one").out == "one\n"
    assert call("note", run, "two").out == "one\n\ntwo\n"
    assert call("note", run, "--replace", "three").out == "three\n"
    assert call("note", run, "-f", "jsonl").out == f'{{"run": "{run}", "note": "three"}}\n'
    assert call("note", run, "--clear").out == ""
    assert call("note", run).out == ""
    for words, why in (
        ((tmp_path, "one"), "there is no run here"),
        ((run, "one", "--clear"), "--clear takes no text"),
        ((run, "--replace"), "--replace needs a text"),
    ):
        done = call("note", *words)
        assert done.code == 2
        assert why in done.err
