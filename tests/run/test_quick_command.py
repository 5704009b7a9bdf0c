"""`vectrial quick` and `vectrial init`, end to end on real stores and small data."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from compared_runs import Made
from small_suite import Inside

from vectrial.analysis.run_data import load
from vectrial.cli import init as init_command
from vectrial.cli import quick_view
from vectrial.cli.output import Format
from vectrial.compare.ranking import rank
from vectrial.datasets import catalog, library
from vectrial.experiments.registry import EXPERIMENTS
from vectrial.model.errors import SourceUnavailable
from vectrial.questions import contenders
from vectrial.questions import quick as quick_question
from vectrial.questions.bench import DATASET
from vectrial.questions.contenders import SkippedStore
from vectrial.results.reader import RunReader
from vectrial.suite.model import parse_suite, read_suite

TINY = ("--dataset", "clustered-8-1k", "--minutes", "0.5")
STORES = ("hnswlib", "weaviate")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is planned for half a minute may take ten: a test machine may be busy."""
    monkeypatch.setattr(quick_question, "END_S", -600.0)


@pytest.mark.slow
@pytest.mark.usefixtures("patient")
def test_an_answer_with_its_run_and_its_suite(inside: Inside, tmp_path: Path) -> None:
    done = inside("quick", "hnswlib", "memory", *TINY)
    assert done.code == 0, done.err
    assert "clustered-8-1k, 1,000 rows: recall ≥ 0.95, k = 10, 1 client" in done.out
    rows = {line.split()[0]: line.split() for line in done.out.splitlines() if line.split()}
    searched, loaded = done.out.split("Loading until it is ready to search")
    assert "exact" in next(line for line in searched.splitlines() if line.startswith("memory"))
    assert re.search(r"^hnswlib .* ef_search=\d+ ", searched, re.MULTILINE)
    assert {"hnswlib", "memory"} <= rows.keys()
    assert "QPS at exactly recall 0.95" in loaded
    assert "hnswlib search (clients=1, ef_search=10): recall" in done.err, "as it comes"
    (folder,) = (tmp_path / "runs").glob("*-quick")
    assert f"run: runs/{folder.name}\n" in done.out
    text = (folder / "suite.toml").read_text()
    assert text.startswith("# The suite of `vectrial quick`.")
    assert "# repeats: repeats of every trial" in text
    with RunReader(folder) as run:
        bad = run.rows("select store, experiment, reason from trial where status <> 'ok'")
        assert bad == []
    (tmp_path / "mine.toml").write_text(text)
    assert inside("run", "mine.toml", "--dry-run").code == 0


@pytest.mark.usefixtures("patient", "in_process")
def test_own_vectors_as_json_lines(inside: Inside, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    vectors = pa.array(rng.normal(size=(400, 8)).tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"title": ["x"] * 400, "embedding": vectors}), tmp_path / "my.parquet")
    asked = ("--dataset", "my.parquet", "--minutes", "0.3", "--format", "jsonl")
    done = inside("quick", "memory", *asked)
    assert done.code == 0, done.err
    assert "metric: cosine, since the file does not say" in done.err
    store, run = map(json.loads, done.out.splitlines())
    assert (store["kind"], store["store"], run["kind"]) == ("store", "memory", "run")
    assert store["recall_mean"]["median"] == 1
    assert store["errors"]["median"] == 0
    assert store["reason"] is None
    assert (Path(run["folder"]) / "suite.toml").is_file()
    assert inside("quick", "memory", *asked, "--dry-run").code == 0, "the file is known by now"
    with (tmp_path / "my.parquet").open("ab") as file:
        file.write((tmp_path / "my.parquet").read_bytes())
    changed = inside("quick", "memory", *asked, "--dry-run")
    assert changed.code == 2
    assert "there is a dataset named 'my' already, of other data" in changed.err


def test_stores_that_have_no_row_are_told_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    low = {16: 0.5, 64: 0.9}
    made = Made().sweep("good").sweep("low", recalls=low).sweep("bad", wrong=True)
    made.trial("gone", status="failed", reason="StoreError: it fell over")
    run = load(made.write(tmp_path / "run"))
    skipped = (SkippedStore("away", "not installed: pip install away"),)
    answer = quick_question.QuickAnswer(
        quick_question.QuickQuestion(), run.folder, run, rank(run, 0.95), skipped
    )
    quick_view.print_answer(answer, Format.TABLE)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    below = " ".join(printed.partition("Not in the table:")[2].split())
    assert "low: recall 0.95 is not reached: at most 0.9000" in below
    assert "bad: wrong: it failed the gate: scores_agree" in below
    assert "gone: StoreError: it fell over" in below
    assert "away: not installed: pip install away" in below
    found = {one["store"]: one for one in quick_view.objects(answer)}
    assert found["good"]["search"] == {"ef_search": 40}
    assert found["low"]["qps"] is None
    assert found["away"]["kind"] == "skipped"


def test_without_time_nothing_is_measured_and_the_run_can_be_resumed(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_question, "END_S", 1e9)
    done = inside("quick", "hnswlib", "memory", *TINY)
    assert done.code == 1
    below = done.out.partition("Nothing was measured:")[2]
    assert "hnswlib: there was no time left for it" in below
    (folder,) = (tmp_path / "runs").glob("*-quick")
    assert f"vectrial run --resume runs/{folder.name}" in below
    left = inside("run", "--resume", str(folder), "--dry-run", "--format", "jsonl")
    lines = [json.loads(line) for line in left.out.splitlines()]
    assert {line["store"] for line in lines if line["kind"] == "trial"} == {"hnswlib", "memory"}


def test_the_plan_alone(inside: Inside, tmp_path: Path) -> None:
    done = inside("quick", "hnswlib", *TINY, "--dry-run")
    assert done.code == 0
    assert re.fullmatch(r"about \d+ s\n", done.err)
    suite = parse_suite(done.out, "stdout")
    assert (suite.name, [ref.store for ref in suite.stores]) == ("quick", ["hnswlib"])
    assert not (tmp_path / "runs").exists()
    facts = json.loads(inside("quick", "hnswlib", *TINY, "--dry-run", "--format", "jsonl").out)
    assert facts["estimate_s"] <= 30
    assert parse_suite(facts["suite"], "stdout") == suite


def test_stores_that_fit_are_chosen_and_the_libraries_come_first(inside: Inside) -> None:
    facts = json.loads(inside("quick", "--dry-run", "--format", "jsonl").out)
    assert "hnswlib" in facts["stores"][:3]
    assert facts["estimate_s"] <= 180
    assert "memory" not in facts["stores"][:3], "what is exact comes last"
    assert not {"redis", "weaviate", "milvus"} & {*facts["stores"], *facts["left_out"]}


def test_a_store_that_is_not_there_is_skipped_and_alone_refused(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        contenders.registry, "_importable", lambda module: not module.startswith("faiss")
    )
    done = inside("quick", "faiss", "memory", *TINY, "--dry-run")
    assert done.code == 0
    assert "faiss is skipped: not installed: pip install 'vectrial[faiss]'" in done.err
    refused = inside("quick", "faiss", *TINY, "--dry-run")
    assert refused.code == 2
    assert "pip install 'vectrial[faiss]'" in refused.err


def test_without_a_network_data_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def ensure(name: str, progress: object) -> object:
        made.append(name)
        if name == DATASET:
            raise SourceUnavailable("no route to the registry", remedy="go online")
        return type("Made", (), {"name": name})

    monkeypatch.setattr(catalog, "ensure", ensure)
    said: list[str] = []
    name = contenders.default_dataset(lambda done, of, what: None, said.append)
    assert name == contenders.DRAWN == made[-1]
    assert catalog.makes(name)
    assert "no route to the registry" in said[0]


def test_a_file_that_leaves_a_choice_names_the_command_that_has_it(
    inside: Inside, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    column = pa.array(rng.normal(size=(50, 4)).tolist(), pa.list_(pa.float32()))
    pq.write_table(pa.table({"left": column, "right": column}), tmp_path / "two.parquet")
    done = inside("quick", "memory", "--dataset", str(tmp_path / "two.parquet"))
    assert done.code == 2
    assert "--vectors" in done.err
    assert f"vectrial data import {tmp_path}/two.parquet --name mine" in done.err


def test_of_a_large_file_the_first_rows_are_read(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contenders, "_MOST_ROWS", 200)
    vectors = np.random.default_rng(3).normal(size=(500, 4)).astype(np.float32)
    np.save(tmp_path / "big.npy", vectors)
    done = inside("quick", "memory", "--dataset", str(tmp_path / "big.npy"), "--dry-run")
    assert done.code == 0, done.err
    assert "the first 200 of 500 rows" in done.err
    suite = parse_suite(done.out, "stdout")
    assert suite.datasets[0].name == "big-first-200"
    assert library.load("big-first-200").rows == 180


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_nothing_badly(tmp_path: Path) -> None:
    command = f"{sys.executable} -m vectrial.cli.main quick memory {' '.join(TINY)} --dry-run"
    piped = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -1"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
        env={"PATH": "/usr/bin:/bin", "VECTRIAL_HOME": str(tmp_path / "home")},
    )  # fmt: skip
    assert piped.stdout.startswith("# The suite of")
    assert "Traceback" not in piped.stderr


# -- init ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("experiment", "store"), [*itertools.product(EXPERIMENTS, STORES)])
def test_a_suite_of_each_experiment_can_be_planned(
    inside: Inside, tmp_path: Path, experiment: str, store: str
) -> None:
    asked = ("--dataset", "clustered-8-1k", "--experiment", experiment, "--rows", "500")
    done = inside("init", "mine.toml", "--store", store, *asked, "--format", "jsonl")
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["file"], said["suite"]) == ("mine.toml", (tmp_path / "mine.toml").read_text())
    suite = read_suite(tmp_path / "mine.toml")
    assert (suite.name, suite.datasets[0].rows) == ("mine", 500)
    assert [ref.experiment for ref in suite.experiments] == [experiment]
    planned = inside("run", "mine.toml", "--dry-run", "--format", "jsonl")
    assert planned.code == 0, planned.err
    lines = [json.loads(line) for line in planned.out.splitlines()]
    assert len([one for one in lines if one["kind"] == "skipped"]) == len(said["skipped"])


def test_init_replaces_no_file_unless_it_is_told_to(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text("mine")
    one = ("--store", "memory", "--dataset", "clustered-8-1k")
    refused = inside("init", *one)
    assert refused.code == 2
    assert "--force" in refused.err
    assert (tmp_path / "suite.toml").read_text() == "mine"
    assert inside("init", *one, "--force").out == "suite.toml\n"
    assert read_suite(tmp_path / "suite.toml").stores[0].store == "memory"
    printed = inside("init", "-", *one)
    assert parse_suite(printed.out, "stdout").name == "suite"


def test_init_asks_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(
        ["nope", "clustered-8-1k", "memory, faiss", "search storage", "9999", "500", "2"]
    )
    asked: list[str] = []

    def prompt(question: str, **options: object) -> str:
        asked.append(question)
        return next(answers)

    monkeypatch.setattr(init_command.typer, "prompt", prompt)
    start = init_command._Answers("mine", (), DATASET, ("search",), None, 3, 10)
    found = init_command._ask_questions(start)
    assert found.dataset == "clustered-8-1k"
    assert found.stores == ("memory", "faiss")
    assert found.experiments == ("search", "storage")
    assert (found.rows, found.repeats) == (500, 2)
    assert [len(list(same)) for _, same in itertools.groupby(asked)] == [2, 1, 1, 2, 1]
