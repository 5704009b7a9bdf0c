"""What the pages say can be done: links lead somewhere, commands and options exist, the whole
suite can be planned, the query runs."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer.main
from command_calls import subcommands

from vectrial.cli.app import app
from vectrial.datasets.readers import open_source
from vectrial.model.metric import Metric
from vectrial.model.results_schema import DDL
from vectrial.model.schema import Field, FieldType
from vectrial.plan.model import DatasetShape
from vectrial.plan.plan import make_plan
from vectrial.stores import registry
from vectrial.suite.model import parse_suite

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import figures  # noqa: E402

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), DOCS / "results" / "README.md"]
OF_REPOSITORY = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Those of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", [*PAGES, *OF_REPOSITORY], ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_every_page_can_be_reached_from_the_readme_or_the_index() -> None:
    readme, index = PAGES[0].read_text(encoding="utf-8"), DOCS / "README.md"
    assert f"]({name_of(index)})" in readme
    listed = index.read_text(encoding="utf-8")
    for page in PAGES[1:]:
        own = page.relative_to(DOCS).as_posix()
        assert page == index or f"]({name_of(page)}" in readme or f"]({own}" in listed, page


def commands(page: Path) -> list[list[str]]:
    """The words of each line of code that calls vectrial, without what explains it."""
    lines = re.findall(r"^ {4,}(vectrial .+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.split(r"\s{2,}|\s[#|>\\]", line)[0].split()[1:] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_their_options_exist(page: Path) -> None:
    for words in commands(page):
        command: Any = typer.main.get_command(app)
        rest = list(words)
        while within := subcommands(command):
            assert rest, words
            assert rest[0] in within, words
            command = within[rest.pop(0)]
        params = command.load().params
        known = {name for param in params for name in (*param.opts, *param.secondary_opts)}
        for word in rest:
            if re.match(r"--?[a-z]", word):
                assert word in known, (words, word)


def test_the_readme_names_the_command_that_runs_all_tests() -> None:
    assert "    make test " in PAGES[0].read_text(encoding="utf-8")


def test_the_readme_stays_short() -> None:
    assert len(PAGES[0].read_text(encoding="utf-8").split()) <= 1200


def test_pages_have_commands() -> None:
    """What `commands` finds is not nothing."""
    assert ["run", "servers", "--dry-run"] in commands(ROOT / "README.md")
    assert sum(len(commands(page)) for page in PAGES) > 40


def made(page: Path) -> set[str]:
    """The targets of make that a page's code names."""
    text = page.read_text(encoding="utf-8")
    code = re.findall(r"`([^`\n]+)`|^ {4,}(.+)$", text, re.MULTILINE)
    return {name for one in code for name in re.findall(r"^make ([a-z-]+)", "".join(one))}


@pytest.mark.parametrize("page", [*PAGES, *OF_REPOSITORY], ids=name_of)
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert made(page) <= set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_the_page_of_contributors_names_what_one_needs() -> None:
    assert {"setup", "test-fast", "lint", "test", "bench"} <= made(ROOT / "CONTRIBUTING.md")


def test_the_tiers_of_tests_are_their_markers() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tiers = re.findall(r"^\|[^|]+\| `(\w+)(?:\(.*\))?` \|", page, re.MULTILINE)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    markers = settings["tool"]["pytest"]["ini_options"]["markers"]
    # These two say what a test is bound to, and not how long it takes.
    bound = {"committed", "store"}
    assert {*tiers, *bound} == {re.split(r"\W", one)[0] for one in markers}
    (fast,) = re.findall(r'-m "(not .+)"', (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert sorted(fast.removeprefix("not ").split(" and not ")) == sorted(tiers)


def test_the_whole_suite_of_the_reference_is_planned_and_refuses_nothing() -> None:
    page = (DOCS / "suites.md").read_text(encoding="utf-8")
    text = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0]
    suite = parse_suite(text, "docs/suites.md")
    shape = DatasetShape("mine", 5_000, 32, Metric.COSINE, (Field("rank", FieldType.INT),))
    plan = make_plan(
        suite,
        where="docs/suites.md",
        load_store=registry.load,
        shape_of=lambda _: shape,
        known_stores=registry.names(),
    )
    assert not plan.refusals
    assert {job.store.name for job in plan.jobs} == {"weaviate", "pgvector"}
    asked = {job.store.name: set[str]() for job in plan.jobs}
    for job in plan.jobs:
        for row in (trial.row for trial in job.trials):
            build = {name: row.index_params[name] for name in ("m", "ef_construction")}
            asked[job.store.name].add(repr((row.experiment, row.rows, build, row.params)))
    assert asked["weaviate"] == asked["pgvector"], "`compare` sets equal terms side by side"
    efs: dict[tuple[str, Any], set[int]] = {}
    for trial in (trial for job in plan.jobs for trial in job.trials):
        if (effort := trial.row.params.get("ef_search")) is not None:
            load = trial.row.experiment, trial.row.params.get("clients")
            efs.setdefault(load, set()).add(effort)
    assert len(efs) == 2
    assert all(len(found) > 1 for found in efs.values()), "one point is no curve"


def test_the_prices_of_the_reference_are_a_sheet() -> None:
    page = (DOCS / "suites.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (sheet,) = [block for block in blocks if block.startswith("[prices]")]
    assert parse_suite(blocks[0] + sheet, "docs/suites.md").prices is not None


def test_what_the_page_of_datasets_makes_of_text_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.json").write_text('[{"id": 1, "embedding": [0.5, 1, 2]}]')
    duckdb.sql("select 1 as id, '[0.5, 1, 2]' as embedding").write_parquet("text.parquet")
    duckdb.sql("select 1 as id, 0.5 as v0, 1 as v1, 2 as v2").write_parquet("wide.parquet")
    page = (DOCS / "datasets.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    imported, *made = ast.parse(block).body
    assert (ast.unparse(imported), len(made)) == ("import duckdb", 3)
    for one in made:
        exec(ast.unparse(one), {"duckdb": duckdb})
        with open_source(Path("my.parquet")) as source:
            assert [block.vectors.tolist() for block in source.blocks()] == [[[0.5, 1, 2]]]


def test_the_query_of_the_results_page_runs() -> None:
    page = (DOCS / "results-format.md").read_text(encoding="utf-8")
    (query,) = re.findall(r'query = """(.*?)"""', page, re.DOTALL)
    with duckdb.connect() as db:
        db.execute(DDL)
        db.execute(
            "insert into trial select 1, 'k', 'memory', null, 'embedded', 'd', 1, 1, 'l2', 'e',"
            " 'flat', '{}', '{}', 1, 1, 'ok', null, '[]', null, null, null, null, '[]', null"
        )
        db.execute("insert into phase select 1, 1, 0, 'search', 'search', '{}', 0, 1, true, null")
        db.execute("insert into metric select 1, 'qps', 5.0, '1/s', true, null")
        assert db.sql(query).fetchall() == [("memory", "search", "qps", 5.0, "1/s")]


@pytest.mark.parametrize("name", figures.pages())
def test_figures_are_in_the_results_that_their_section_names(name: str) -> None:
    assert figures.missing(name, (ROOT / name).read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        ("[demo](demo): hnswlib answers 27,348 QPS, p99 90.0 µs.", []),
        ("[demo](demo): hnswlib answers 28.2 thousand and 0.0808 ms.", []),
        ("[demo](demo): hnswlib answers 29,162 QPS.", ["29,162 QPS"]),
        ("[demo](demo): it is 37 times slower.", ["37 times"]),
        ("hnswlib answers 27,348 QPS.", ["27,348 QPS"]),
        ("[servers](servers).\n\n## Demo\n\nA p99 of 1.40 ms.", ["1.40 ms"]),
    ],
)
def test_a_figure_without_its_result_is_found(said: str, lacks: list[str]) -> None:
    lines = figures.missing(figures.RESULTS, f"## Demo\n\n{said}\n")
    assert [line.split(": ")[1] for line in lines] == lacks
