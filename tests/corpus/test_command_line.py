"""Values of the command line that cannot be meant."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import data_files
import pytest
from test_suites import BASE, with_experiment

Refused = Callable[..., str]
HUGE = "99999999999999999999"
ONE = ("--dataset", "clustered-8-1k")

#: `{suite}` is a good suite, `{none}` is not there, `{npy}` is a file of vectors.
CASES: list[tuple[str, ...]] = [
    ("run",),
    ("run", "{none}"),
    ("run", "{suite}", "--repeats", "0"),
    ("run", "{suite}", "--repeats", "-3"),
    ("run", "{suite}", "--repeats", "1001"),
    ("run", "{suite}", "--repeats", HUGE),
    ("run", "{suite}", "--repeats", HUGE, "--dry-run"),
    ("run", "{suite}", "--repeats", "three"),
    ("run", "{suite}", "--repeats", "1.5"),
    ("run", "{suite}", "--repeats", ""),
    ("run", "{suite}", "--only", "nope"),
    ("run", "{suite}", "--only", ""),
    ("run", "{suite}", "--only", "\x1b[2J"),
    ("run", "{suite}", "--only", "a\nb"),
    ("run", "{suite}", "--format", "xml"),
    ("run", "{suite}", "--seal", "00"),
    ("run", "{suite}", "--resume", "runs/latest"),
    ("run", "--resume", "{none}"),
    ("run", "--resume", "/dev/zero"),
    ("run", "--resume", "{suite}"),
    ("run", "--resume", "{none}", "--out", "x"),
    ("run", "--from", "{none}"),
    ("run", "--from", "{suite}"),
    ("run", "--from", "/dev/null"),
    ("run", "{suite}", "--out", "{suite}"),
    ("run", "{suite}", "--unknown"),
    ("capacity",),
    ("capacity", "nope"),
    ("capacity", ""),
    ("capacity", "\x1b[31m"),
    ("capacity", "a\nb"),
    ("capacity", "n" * 300),
    ("capacity", "hnswlib", "--dataset", "nope"),
    ("capacity", "hnswlib", "--dataset", ""),
    ("capacity", "hnswlib", "--dataset", "a\nb"),
    ("capacity", "hnswlib", "--dataset", "n" * 300),
    ("capacity", "hnswlib", *ONE, "--rows", "0"),
    ("capacity", "hnswlib", *ONE, "--rows", HUGE),
    ("capacity", "hnswlib", *ONE, "--p99", "20"),
    ("capacity", "hnswlib", *ONE, "--p99", "0ms"),
    ("capacity", "hnswlib", *ONE, "--p99", "-1ms"),
    ("capacity", "hnswlib", *ONE, "--p99", "nan"),
    ("capacity", "hnswlib", *ONE, "--p99", ""),
    ("capacity", "hnswlib", *ONE, "--p99", "9" * 400 + "s"),
    ("capacity", "hnswlib", *ONE, "--p99", f"{HUGE}s"),
    ("capacity", "hnswlib", *ONE, "--recall", "2"),
    ("capacity", "hnswlib", *ONE, "--recall", "nan"),
    ("capacity", "hnswlib", *ONE, "--recall", "high"),
    ("capacity", "hnswlib", *ONE, "--errors", "1"),
    ("capacity", "hnswlib", *ONE, "--errors", "nan"),
    ("capacity", "hnswlib", *ONE, "--index", "flat"),
    ("capacity", "hnswlib", *ONE, "--index", ""),
    ("capacity", "hnswlib", *ONE, "--param", "m"),
    ("capacity", "hnswlib", *ONE, "--param", "m="),
    ("capacity", "hnswlib", *ONE, "--param", "m=true"),
    ("capacity", "hnswlib", *ONE, "--param", "m=many"),
    ("capacity", "hnswlib", *ONE, "--param", "m=0"),
    ("capacity", "hnswlib", *ONE, "--param", "m=nan"),
    ("capacity", "hnswlib", *ONE, "--param", "ef_construction=4000000000"),
    ("capacity", "hnswlib", *ONE, "--param", "speed=9"),
    ("capacity", "hnswlib", *ONE, "--search", "ef_search=0"),
    ("capacity", "hnswlib", *ONE, "--search", "speed=1"),
    ("capacity", "hnswlib", *ONE, "--search", "=1"),
    ("capacity", "hnswlib", *ONE, "--lane", "fast"),
    ("capacity", "hnswlib", *ONE, "--lane", "native"),
    ("capacity", "hnswlib", *ONE, "--lane", ""),
    ("capacity", "hnswlib", *ONE, "--k", "0"),
    ("capacity", "hnswlib", *ONE, "--k", "10001"),
    ("capacity", "hnswlib", *ONE, "--k", HUGE),
    ("capacity", "hnswlib", *ONE, "--k", "true"),
    ("capacity", "hnswlib", *ONE, "--duration", "0"),
    ("capacity", "hnswlib", *ONE, "--duration", "1e300"),
    ("capacity", "hnswlib", *ONE, "--duration", "nan"),
    ("capacity", "hnswlib", *ONE, "--confirm", "inf"),
    ("capacity", "hnswlib", *ONE, "--confirm", "1e9"),
    ("capacity", "hnswlib", *ONE, "--resolution", "0"),
    ("capacity", "hnswlib", *ONE, "--resolution", "2"),
    ("capacity", "hnswlib", *ONE, "--most", "0"),
    ("capacity", "hnswlib", *ONE, "--most", "1e300"),
    ("capacity", "hnswlib", *ONE, "--repeats", HUGE),
    ("tune", "nope"),
    ("tune", "hnswlib", "--dataset", "nope"),
    ("tune", "hnswlib", *ONE, "--budget", "0"),
    ("tune", "hnswlib", *ONE, "--seconds", "0"),
    ("tune", "hnswlib", *ONE, "--seconds", "1e300"),
    ("tune", "hnswlib", *ONE, "--seconds", "nan"),
    ("tune", "hnswlib", *ONE, "--memory", "much"),
    ("tune", "hnswlib", *ONE, "--memory", "9" * 400 + "GiB"),
    ("tune", "hnswlib", *ONE, "--memory", "-1GiB"),
    ("tune", "hnswlib", *ONE, "--p99", "fast"),
    ("tune", "hnswlib", *ONE, "--index", "flat"),
    ("tune", "hnswlib", *ONE, "--seed", "-1"),
    ("tune", "hnswlib", *ONE, "--seed", HUGE),
    ("tune", "hnswlib", *ONE, "--k", HUGE),
    ("tune", "hnswlib", *ONE, "--rows", HUGE),
    ("tune", "hnswlib", *ONE, "--resume", "{none}"),
    ("data", "import"),
    ("data", "import", "{none}"),
    ("data", "import", "/dev/zero", "--metric", "l2"),
    ("data", "import", "n" * 300, "--metric", "l2"),
    ("data", "import", "{npy}", "--metric", "\x1b[2J"),
    ("data", "import", "{npy}", "--metric", "l2", "--rows", HUGE + "x"),
    ("data", "import", "{npy}", "--metric", "l2", "--queries", HUGE),
    ("data", "import", "{npy}", "--metric", "l2", "--seed", "x"),
    ("data", "import", "{npy}", "--metric", "l2", "--seed", "-1"),
    ("data", "fetch"),
    ("data", "fetch", "nope"),
    ("data", "fetch", ""),
    ("data", "fetch", "clustered-8-0"),
    ("data", "fetch", "clustered-999999-1k"),
    ("data", "fetch", "glove-words-50", "--rows", "0"),
    ("data", "fetch", "glove-words-50", "--rows", HUGE),
    ("data", "fetch", "\x1b[2J"),
    ("data", "fetch", "../../etc"),
    ("data", "truth", "nope"),
    ("data", "truth", "nope", "-k", "0"),
    ("data", "truth", "a\nb"),
    ("data", "inspect", "nope"),
    ("data", "inspect", "{none}.npy"),
    ("data", "inspect", "{npy}", "--rows", "0"),
    ("data", "inspect", "{npy}", "--metric", "taxi"),
    ("data", "inspect", "/dev/zero"),
    ("data", "remove", "nope"),
    ("data", "remove", "../.."),
    ("report", "{none}"),
    ("report", "{npy}"),
    ("report", "/dev/zero"),
    ("report", "n" * 300),
    ("compare", "{none}", "{none}"),
    ("compare", "{npy}", "{npy}"),
    ("bundle", "{none}"),
    ("bundle", "/dev/zero"),
    ("serve", "--port", "-1"),
    ("serve", "--port", "70000"),
    ("serve", "--port", "http"),
    ("serve", "--host", "0.0.0.0"),
    ("reproduce", "nope"),
    ("reproduce", "milvus-weaviate", "--scale", "0"),
    ("reproduce", "milvus-weaviate", "--scale", "nan"),
    ("reproduce", "milvus-weaviate", "--scale", "7"),
    ("reproduce", "milvus-weaviate", "--store", "nope"),
    ("reproduce", "milvus-weaviate", "--repeats", HUGE),
    ("reproduce", "milvus-weaviate", "--resume", "{none}"),
    ("stores", "nope"),
    ("stores", ""),
    ("experiments", "nope"),
    ("up", "nope"),
    ("up", "hnswlib"),
    ("up", "redis", "--cpus", "0"),
    ("up", "redis", "--cpus", "nan"),
    ("up", "redis", "--cpus", "1e300"),
    ("up", "redis", "--memory", "much"),
    ("up", "redis", "--memory", "0GiB"),
    ("up", "redis", "--provider", "cloud"),
    ("up", "redis", "--provider", "external"),
    ("down",),
    ("down", "nope"),
    ("nonsense",),
    ("--nonsense",),
]


@pytest.mark.parametrize(
    "words", CASES, ids=lambda words: " ".join(words)[:60].encode("unicode_escape").decode()
)
def test_what_cannot_be_meant(refused: Refused, given: Path, words: tuple[str, ...]) -> None:
    (given / "suite.toml").write_text(BASE)
    (given / "a.npy").write_bytes(data_files.GOOD_NPY)
    names = {"suite": given / "suite.toml", "none": given / "none", "npy": given / "a.npy"}
    refused(*(word.format(**names) if word.startswith("{") else word for word in words))


#: Of each kind one, as a person would call it.
REAL = {
    "suite": (BASE.replace("k = 10", "k = true"), ("run", "suite.toml")),
    "trace": (
        with_experiment("open_loop", 'arrivals = "trace"\ntrace = "/dev/zero"'),
        ("run", "suite.toml", "--dry-run"),
    ),
    "repeats": (BASE, ("run", "suite.toml", "--repeats", HUGE)),
    "name": (BASE, ("data", "import", "suite.toml", "--name", "\x1b[2J")),
}


@pytest.mark.parametrize(("text", "words"), REAL.values(), ids=REAL)
def test_as_a_process(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / "suite.toml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "vectrial.cli.main", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("vectrial: ")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["suite.toml"]
