"""Committed results: each has an entry that measures it, and the entries are worked through."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from synthetic_runs import STORES, write_run

from vectrial.model.errors import UserError
from vectrial.results.database import DATABASE
from vectrial_reproduce.reports import REPRODUCTIONS
from vectrial_reproduce.reports.results import code, declarations, measure, sealed, table
from vectrial_reproduce.reports.results.__main__ import main
from vectrial_reproduce.reports.results.declarations import CommittedResult
from vectrial_reproduce.reports.results.measure import NotMeasured, ResultFolders
from vectrial_reproduce.reports.results.sealed import CommittedState

ROOT = Path(__file__).resolve().parents[4]
RESULTS = ROOT / "docs" / "results"
TINY = """
name = "tiny"
repeats = 1
[[datasets]]
name = "clustered-16-2k"
queries = 20
[[stores]]
store = "memory"
index = "flat"
[[experiments]]
experiment = "search"
stores = ["memory"]
min_s = {seconds}
max_s = {seconds}
"""


def listed(tmp_path: Path, content: str) -> Path:
    """A folder of results with this list."""
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    (results / declarations.LIST).write_text(content)
    return results


def suite(tmp_path: Path, seconds: float = 0.1) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY.format(seconds=seconds))
    return path


def test_every_bundle_has_an_entry_and_every_entry_its_bundle() -> None:
    entries = declarations.read(RESULTS)
    assert {one.name for one in entries if not one.pending} == sealed.folders(RESULTS)


def test_every_suite_and_every_report_is_measured_by_an_entry() -> None:
    entries = declarations.read(RESULTS)
    words = {word for one in entries for word in one.words}
    files = (*ROOT.glob("suites/*.toml"), *ROOT.glob("packages/*/src/*/suites/*.toml"))
    suites = {path.relative_to(ROOT).as_posix() for path in files}
    assert suites <= words
    assert set(REPRODUCTIONS) == {one.words[1] for one in entries if one.is_reproduction}
    files = [word for word in words if word.endswith((".toml", ".gz"))]
    assert all((ROOT / file).is_file() for file in files)


def test_an_entry_is_measured_sealed_and_left_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = listed(
        tmp_path,
        '[missing]\ncommand = "run no-such-suite.toml"\n'
        f'[tiny]\ncommand = "run {suite(tmp_path)}"\npending = true\n',
    )
    words = [str(results), "--no-wait", "--runs", str(tmp_path / "runs")]
    assert main(words) == 1
    said = capfd.readouterr().err
    assert "tiny: measured for the first time" in said
    assert "remove `pending` from its entry" in said
    assert "failed: missing: exit code 2 of: vectrial run no-such-suite.toml" in said
    assert said.rstrip().endswith("1 of 2 results failed")
    bundle = results / "tiny" / measure.BUNDLE
    assert (results / "tiny" / "report.md").read_text().count(measure.BUNDLE)
    assert {path.name for path in bundle.parent.iterdir()} <= {bundle.name, "report.md", "figures"}

    monkeypatch.setattr(code, "commits_since", lambda *_: 0)
    assert main([*words, "--only", "tiny"]) == 0
    assert "tiny: measured by this code on" in capfd.readouterr().err
    assert main([*words, "--list", "--format", "jsonl"]) == 0
    missing, tiny = map(json.loads, capfd.readouterr().out.splitlines())
    assert missing["measured"] is missing["took_s"] is None
    assert tiny["trials"] == 1
    assert tiny["took_s"] > 0
    assert "cores" in tiny["machine"]
    assert tiny["revisions"] == [code.revision()]

    # A run that was measured, but not sealed any more, is sealed without measuring.
    sealed_before = bundle.read_bytes()
    bundle.unlink()
    monkeypatch.setattr(measure, "_run", lambda words: pytest.fail(f"measured: {words}"))
    assert main([*words, "--only", "tiny", "--all"]) == 0
    assert bundle.read_bytes() == sealed_before


def test_the_pause_of_a_resumed_run_is_not_its_duration(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one", repeats=1, stores={"faiss": STORES["faiss"]})
    parts = {"before": sealed.facts(run)}
    assert not parts["before"].paused
    with duckdb.connect(str(run / DATABASE)) as db:
        # All trials in a row; then the later half two hours later, as by a resume.
        db.execute(
            "update trial set duration_s = 60, started_at = (select min(started_at) from run)"
            " + to_seconds(60 * trial_id)"
        )
        db.execute(
            "update trial set started_at = started_at + interval 2 hours"
            " where trial_id > (select median(trial_id) from trial)"
        )
        db.execute("update run set finished_at = (select max(started_at) from trial)")
    paused = sealed.facts(run)
    assert paused.paused == timedelta(hours=2)
    took = CommittedState(CommittedResult("one", ("run",)), {"": paused}).duration
    assert took == paused.ended - paused.started - timedelta(hours=2)


def test_the_link_to_the_latest_part_is_no_part(tmp_path: Path) -> None:
    for part in ("one", "two"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "run.duckdb").touch()
    (tmp_path / "latest").symlink_to("two")
    assert sealed.runs(tmp_path) == {"one": tmp_path / "one", "two": tmp_path / "two"}


def test_an_interrupted_result_keeps_its_run(tmp_path: Path) -> None:
    results = listed(tmp_path, f'[tiny]\ncommand = "run {suite(tmp_path, 300)}"\n')
    program = [
        sys.executable,
        "-m",
        "vectrial_reproduce.reports.results",
        str(results),
        "--no-wait",
    ]
    process = subprocess.Popen(
        [*program, "--runs", str(tmp_path / "runs")], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 120
    while not (begun := list(tmp_path.glob("runs/tiny/*-tiny/suite.toml"))):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait() == 128 + signal.SIGTERM, said
    assert "interrupted; the same command goes on with it" in said
    assert begun[0].is_file()
    assert not (results / "tiny" / measure.BUNDLE).exists()


def test_a_resumed_run_has_the_stores_of_its_first_call(tmp_path: Path) -> None:
    def words(command: str, begun: Path | None) -> list[str]:
        result = CommittedResult("one", tuple(command.split()))
        return measure.command(result, tmp_path, begun)

    folder = tmp_path / "x"
    narrow = "run suites/durability.toml --store milvus --repeats 2"
    assert words(narrow, None) == [*narrow.split(), "--out", str(tmp_path), "--no-report"]
    assert words(narrow, folder) == [
        "run", "--resume", str(folder), "--store", "milvus", "--repeats", "2", "--no-report",
    ]  # fmt: skip
    repeated = words("run --from a/run.vectrial.tar.gz", folder)
    assert repeated == ["run", "--resume", str(folder), "--no-report"]
    assert words("reproduce longbow --scale 1", folder) == [
        "reproduce", "--resume", str(folder), "-f", "jsonl",
    ]  # fmt: skip
    assert words("fit faiss --rows 9", folder) == [
        "fit", "--resume", str(folder), "faiss", "--rows", "9", "-f", "jsonl",
    ]  # fmt: skip


def test_a_run_of_other_code_is_not_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, places = (
        CommittedResult("one", ("run", "a.toml")),
        ResultFolders(tmp_path / "r", tmp_path / "runs"),
    )
    begun = places.runs / "one" / "20261121-120000-a"
    write_run(begun, repeats=1, stores={"faiss": STORES["faiss"]})
    monkeypatch.setattr(code, "commits_since", lambda *_: 3)
    assert measure.unsealed_run(result, places) is None
    monkeypatch.setattr(code, "commits_since", lambda *_: 0)
    assert measure.unsealed_run(result, places) == begun


@pytest.mark.parametrize("disturbed", [True, False])
def test_what_a_busy_machine_disturbed_is_measured_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disturbed: bool
) -> None:
    result, places = (
        CommittedResult("one", ("run", "a.toml")),
        ResultFolders(tmp_path / "r", tmp_path / "runs"),
    )
    done: list[str] = []

    def run(words: list[str]) -> None:
        done.append(" ".join(words[:1] + words[-1:]))
        if len(done) == 2:  # after the first wait
            begun = places.runs / "one" / "20261121-120000-a"
            write_run(begun, repeats=1, stores={"faiss": STORES["faiss"]}, only_sweep=True)
            (begun / "suite.toml").write_text('name = "a"\n')

    monkeypatch.setattr(code, "commits_since", lambda *_: 0)
    monkeypatch.setattr(measure, "_run", run)
    monkeypatch.setattr(
        measure, "disturbed_keys", lambda _: frozenset({"key"} if disturbed else ())
    )
    measure.measure(result, places, wait=lambda: done.append("wait"))
    again = ["wait", "run --remeasure-disturbed"] if disturbed else []
    assert done == ["wait", "run --no-report", *again]
    assert (places.results / "one" / measure.BUNDLE).is_file()


def test_fewer_measured_trials_do_not_replace_a_bundle(tmp_path: Path) -> None:
    result, results = CommittedResult("one", ("run", "a.toml")), tmp_path / "results"
    for name, stores in (("many", tuple(STORES)[:2]), ("few", tuple(STORES)[:1])):
        write_run(tmp_path / name, repeats=1, stores={one: STORES[one] for one in stores})
        (tmp_path / name / "suite.toml").write_text('name = "a"\n')
    measure.seal_into(result, tmp_path / "many", results)
    before = sealed.committed_state(result, results)
    with pytest.raises(NotMeasured, match="trials have a result"):
        measure.seal_into(result, tmp_path / "few", results)
    assert sealed.committed_state(result, results) == before
    measure.seal_into(result, tmp_path / "few", results, accept_fewer=True)
    assert 0 < sealed.committed_state(result, results).measured < before.measured


def test_commits_that_touch_what_measures_make_a_result_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *words],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(path: str) -> str:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(path)
        git("add", ".")
        git("commit", "-qm", path)
        return git("rev-parse", "HEAD")

    git("init", "-q")
    first = commit("suites/a.toml")
    monkeypatch.setattr(code, "_HERE", tmp_path)
    monkeypatch.chdir(tmp_path)
    run = CommittedResult("a", ("run", "suites/a.toml"))
    report = CommittedResult("b", ("reproduce", "docarray-1m"))
    own = "packages/vectrial-reproduce/src/vectrial_reproduce"
    data = "packages/vectrial-datasets/src/vectrial_datasets"

    def ages() -> tuple[int | None, int | None]:
        code._commits.cache_clear()
        return code.commits_since(run, [first]), code.commits_since(report, [first])

    for path, expected in (
        ("python/vectrial/report/build.py", (0, 0)),
        ("python/vectrial/experiments/search/report.py", (0, 0)),
        ("docs/method.md", (0, 0)),
        ("python/vectrial/workload/record.py", (1, 1)),
        ("engine/src/run/mod.rs", (2, 2)),
        (f"{own}/reports/docarray_1m/report.py", (2, 3)),
        ("python/vectrial/reports/planning.py", (2, 4)),
        ("suites/b.toml", (2, 4)),
        (f"{own}/stores/cuvs.py", (3, 5)),
        (f"{own}/experiments/anomaly/report.py", (3, 5)),
        (f"{data}/commands/pictures.py", (3, 5)),
        (f"{data}/sources/images.py", (4, 6)),
    ):
        last = commit(path)
        assert ages() == expected, path
    (tmp_path / "suites/a.toml").write_text("other")
    assert code.changes() == []
    (tmp_path / "engine/src/run/mod.rs").write_text("other")
    assert code.changes() == ["engine/src/run/mod.rs"]
    assert code.commits_since(run, [last]) == 0
    assert code.commits_since(run, [last, first]) == 4
    assert code.commits_since(run, [last, None]) is None
    assert code.commits_since(run, ["0" * 40]) is None
    code._commits.cache_clear()


def test_what_was_never_measured_is_stale() -> None:
    assert table.is_stale(
        sealed.CommittedState(CommittedResult("a", ("run", "a.toml")), {}), older=10_000
    )


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ('command = "compare a b"', "'compare a b' measures nothing"),
        ('command = "run a.toml --out x"', "--out is given when it is measured"),
        ('comand = "run a.toml"', "command: Field required"),
        ('command = "run \'a.toml"', "No closing quotation"),
        ("command = ", "this is no TOML"),
    ],
)
def test_an_invalid_list_is_refused(tmp_path: Path, entry: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        declarations.read(listed(tmp_path, f"[a]\n{entry}\n"))


def test_a_result_is_chosen_by_its_name_or_its_folder(tmp_path: Path) -> None:
    names = ("demo", "durability/milvus", "durability/libraries")
    every = [CommittedResult(name, ("run", "a.toml")) for name in names]
    assert declarations.select_results(every, []) == every
    assert declarations.select_results(every, ["durability"]) == every[1:]
    assert declarations.select_results(every, ["demo"]) == every[:1]
    with pytest.raises(UserError, match="no result 'dem'"):
        declarations.select_results(every, ["dem"])
    assert main([str(tmp_path)]) == 2
