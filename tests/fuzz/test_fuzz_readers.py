import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz_readers.py")
#: The same files on every machine, however fast it is.
TRIES = "500"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_files_end_in_an_intended_error(seed: int, tmp_path: Path) -> None:
    # In a process of its own, with bounded memory: an absurd allocation or a crash of a C
    # library ends it, and is seen here.
    limited = (
        "import resource, runpy, sys; sys.argv = sys.argv[1:];"
        "import numpy, pyarrow.parquet, h5py, vectrial.datasets.readers;"
        "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize();"
        "limit = size + (1 << 30); resource.setrlimit(resource.RLIMIT_AS, (limit, limit));"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            limited,
            str(FUZZER),
            "--tries",
            TRIES,
            "--seconds",
            "300",
            "--seed",
            str(seed),
        ],
        capture_output=True,
        text=True,
        env={"TMPDIR": str(tmp_path), "VECTRIAL_HOME": str(tmp_path / "home")},
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.split("\n")[1].startswith(f"{TRIES} files read")
