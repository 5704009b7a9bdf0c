"""Committed bundles make pages, and what was found quotes them."""

from __future__ import annotations

import json
import re
import subprocess
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from synthetic_runs import STORES, write_run

from vectrial.analysis.run_data import load
from vectrial.document.render.draw import NARROW, WIDE
from vectrial.model.errors import UserError
from vectrial.report import pages
from vectrial.report.build import build
from vectrial.results.bundle import SUFFIX as BUNDLE
from vectrial.results.bundle import open_bundle, seal

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
BUNDLES = [
    pytest.param(path, id=path.relative_to(RESULTS).parent.as_posix())
    for path in pages.bundles(RESULTS)
]


@pytest.fixture(scope="module")
def vega_lite() -> jsonschema.Draft7Validator:
    """What a specification may say, as Altair has it. What it may not say has no effect there."""
    schema = files("altair").joinpath("vegalite/v6/schema/vega-lite-schema.json")
    return jsonschema.Draft7Validator(json.loads(schema.read_text(encoding="utf-8")))


@pytest.mark.committed
@pytest.mark.parametrize("bundle", BUNDLES)
def test_charts_say_what_vega_lite_knows(
    bundle: Path, vega_lite: jsonschema.Draft7Validator
) -> None:
    with open_bundle(bundle) as (_, folder):
        report = build(load(folder))
    for figure in report.figures():
        for width in (WIDE, NARROW):
            error = jsonschema.exceptions.best_match(
                vega_lite.iter_errors(figure.spec(width, width == WIDE))
            )
            assert error is None, (figure.name, error.json_path, error.message)


def cells(line: str) -> list[str]:
    """Of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.mark.committed
@pytest.mark.parametrize(
    ("results", "section"), [("demo", "## Embedded stores\n"), ("servers", "## Servers\n")]
)
def test_the_findings_quote_the_page_of_the_bundle(results: str, section: str) -> None:
    """Each figure of a table of findings stands in a row of its store in the report."""
    (bundle,) = pages.bundles(RESULTS / results)
    page = pages.text_of(bundle)
    findings = (RESULTS / "README.md").read_text(encoding="utf-8")
    table = findings.partition(section)[2].partition("\n## ")[0]
    quoted = [cells(line) for line in table.splitlines() if line.startswith("| ")][2:]
    assert quoted
    for store, *figures in quoted:
        rows = "\n".join(
            line for line in page.splitlines() if re.match(rf"\| {store}( ·| \(| \|)", line)
        )
        there = re.split(r" \| | \(|\)|/s| ± |\n", rows)
        for part in (part for figure in figures for part in re.split(r" \(|\)", figure)):
            assert (
                part in ("", "–")
                or part.startswith("wrong")
                or part in there
                or (f"ef\\_search={part} " in rows.replace(")", " "))
            ), (store, part)


def test_bundles_alone_are_committed() -> None:
    """Beside them the settings of reproductions, the list of results and what was found."""
    files = subprocess.check_output(["git", "ls-files", "."], cwd=RESULTS, text=True).split()
    kinds = {"README.md", "results.toml"}
    others = [one for one in files if one not in kinds and not one.endswith(BUNDLE)]
    assert {Path(one).name for one in others} <= {"reproduction.json"}


@pytest.mark.slow
def test_the_pages_of_a_folder_are_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "run", repeats=1, stores={"faiss": STORES["faiss"]}, only_sweep=True)
    (tmp_path / "run" / "suite.toml").write_text('name = "demo"\n')
    results = tmp_path / "results"
    bundle = seal(tmp_path / "run", results / "one" / "run.vectrial.tar.gz")
    stale = results / "one" / "figures" / "stale.svg"
    stale.parent.mkdir()
    stale.write_text("<svg/>")
    assert pages.main([str(results)]) == 0
    written = Path(capsys.readouterr().out.strip())
    assert written == results / "one" / "report.md"
    assert bundle.seal in written.read_text()
    assert not stale.exists()
    assert list(stale.parent.glob("*.svg"))


def test_a_folder_without_bundles_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pages.main([str(tmp_path)]) == 2
    assert f"{tmp_path}: no bundle here" in capsys.readouterr().err


def test_two_bundles_would_write_one_page(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.vectrial.tar.gz").touch()
    with pytest.raises(UserError, match=r"a\.vectrial\.tar\.gz and b\.vectrial\.tar\.gz"):
        pages.bundles(tmp_path)
