"""`import vectrial`: its names, what importing it costs, and the example of docs/python.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import vectrial

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


def in_a_process(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_else(tmp_path: Path) -> None:
    code = (
        "import sys; before = set(sys.modules)\nimport vectrial\n"
        "print(sorted(set(sys.modules) - before - {'__future__'}))\n"
        "vectrial.Metric\nprint('duckdb' in sys.modules, 'vectrial.api' in sys.modules)"
    )
    assert in_a_process(code, tmp_path) == "['vectrial']\nFalse False\n"


def test_every_name_is_there_and_is_listed() -> None:
    for name in vectrial.__all__:
        assert getattr(vectrial, name) is not None
        assert name in dir(vectrial)
    with pytest.raises(AttributeError, match="no attribute 'Stor'"):
        vectrial.Stor  # noqa: B018
    page = PAGE.read_text(encoding="utf-8")
    public = set(vectrial.__all__) - {"__version__"}
    assert {name for name in public if f"`{name}" not in page} == set()


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


@pytest.mark.slow
def test_the_example_of_questions(tmp_path: Path) -> None:
    said = in_a_process(examples()[1], tmp_path)
    # A busy machine may not hold the rate, nor leave time for both stores.
    assert re.search(r"^\(([\d.]+|None),\) \('.*(/s|rate).*',\)$", said, re.MULTILINE)
    assert "Candidate(build=Build(kind='hnsw'" in said
    assert said.rstrip().endswith("}"), "verdicts by pairs"
    assert len(list((tmp_path / "runs").glob("*/suite.toml"))) == 4, "three, and `latest`"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("capacity('memory', repeats=0)", "capacity: 'repeats': "),
        ("capacity('memory', recall=2)", "'recall': "),
        ("capacity('memory', index='hnsw')", "store 'memory' has no index 'hnsw'"),
        ("fit('memory', resolution=5)", "fit: 'resolution': "),
        ("tune('memory', budget='many')", "tune: 'budget': "),
        ("quick('memory', minutes=0)", "quick: 'minutes': "),
        ("quick('nothing')", "nothing"),
        ("tune('hnswlib', dataset='clustered-16-2k', bench=vectrial.Bench(resume='away'))",
         "away: there is no run here to resume"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_answered_with_what_is_wrong(
    question: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(vectrial.UserError) as raised:
        eval(f"vectrial.{question}")
    assert said in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    example = examples()[0]
    said = in_a_process(example, tmp_path)
    assert (tmp_path / "runs" / "latest" / "run.duckdb").is_file()
    assert said.count(": ok") == 3 * (1 + 2)
    assert re.search(r"\{'store': \['memory', 'hnswlib'\], 'value_max': \[[\d.]+, [\d.]+\]\}", said)
    assert re.search(r"(better|worse|tie|undecided|not comparable)", said)
    assert "[{'status': 'ok', 'status_count': 9}]" in said
    code = (
        "import sys, vectrial\n"
        "run = vectrial.open_run('runs/latest')\n"
        "tables = [run.trials(), run.phases(), run.metrics(), run.gate(), run.datasets()]\n"
        "print([table.num_rows > 0 for table in tables], run.errors().num_rows)\n"
        "counted = 'select count(*) as n from trial where store = ?'\n"
        "print(run.query(counted, ['memory']).to_pylist())\n"
        "print('two-libraries' in run.suite(), bool(run.environment()))\n"
        "try: vectrial.open_run('nowhere')\n"
        "except vectrial.UserError as error: print(error)\n"
        "try: vectrial.run_suite({'name': 'x'})\n"
        "except vectrial.UserError as error: print(error)\n"
    )
    tables, counted, held, nowhere, wrong = in_a_process(code, tmp_path).splitlines()
    assert tables == f"{[True] * 5} 0"
    assert counted == "[{'n': 3}]"
    assert held == "True True"
    assert nowhere.startswith("nowhere: there is no run here")
    assert wrong.startswith("suite: 'datasets' is missing")
