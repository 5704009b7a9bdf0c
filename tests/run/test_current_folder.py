"""What lies in the current folder is data: none of it is ever executed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_suite import TINY

#: Names of modules that the processes of a run import; the first are looked for the earliest.
CANARIES = (
    "psutil", "numpy", "random", "duckdb", "pyarrow", "pydantic", "json", "ctypes", "resource",
    "vl_convert", "pandas", "uvicorn", "sitecustomize", "usercustomize",
)  # fmt: skip
#: A child process of Python that is started by a module's name.
_BY_NAME = re.compile(r'"-m"')


@pytest.mark.slow
def test_a_run_and_its_report_execute_no_file_of_the_current_folder(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    told = tmp_path / "executed"
    for name in CANARIES:
        (tmp_path / f"{name}.py").write_text(f"open({str(told)!r}, 'a').write('{name} ')\n")
    (tmp_path / "tiny.toml").write_text(TINY)
    command = str(Path(sys.executable).with_name("vectrial"))
    run = subprocess.run(
        [command, "run", "tiny.toml", "--out", str(tmp_path / "runs")],
        capture_output=True, text=True, cwd=tmp_path, env=variables, timeout=300, check=False,
    )  # fmt: skip
    assert not told.exists(), told.read_text()
    assert run.returncode == 0, run.stderr
    assert (Path(run.stdout.split()[-1]) / "report" / "report.html").is_file()


def test_no_child_is_started_with_the_current_folder_on_its_path() -> None:
    """Either by `vectrial.util.children`, or with a switch beside -m that leaves the folder out."""
    root = Path(__file__).resolve().parents[2]
    folders = (root / "python", *root.glob("packages/*/src"))
    for source in sorted(path for folder in folders for path in folder.rglob("*.py")):
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            if _BY_NAME.search(line):
                said = f"{source}:{number}: {line.strip()}"
                option_of_ours = line.strip() == '"-m",'
                assert '"-P"' in line or '"-I"' in line or option_of_ours, said
