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

#: Words in place of `{…}`; those of a suite and of files are added where they are made.
WORDS = {"one": "--dataset clustered-8-1k", "huge": HUGE, "nines": "9" * 400, "long": "n" * 300}
#: Commands, with last words that they refuse; '' is an empty one. `{suite}` is a good suite,
#: `{none}` is not there, `{npy}` is a file of vectors.
CASES = {
    "run": "{none}",
    "run {suite} --repeats": "0 | -3 | 1001 | {huge} | three | 1.5 | ''",
    "run {suite} --repeats {huge}": "--dry-run",
    "run {suite} --store": "nope | '' | \x1b[2J | a\nb",
    "run {suite} --format": "xml",
    "run {suite} --seal": "00",
    "run {suite} --resume": "runs/latest",
    "run --resume": "{none} | /dev/zero | {suite}",
    "run --from": "{none} | {suite} | /dev/null",
    "run {suite} --out": "{suite}",
    "run {suite}": "--unknown",
    "quick": "nope | '' | \x1b[31m | a\nb | {long}",
    "quick hnswlib --dataset": "nope | '' | a\nb | {long} | {none}.npy | {suite} | /dev/zero",
    "quick hnswlib --dataset {npy} --metric": "taxi | \x1b[2J",
    "quick hnswlib {one} --metric": "l2",
    "quick hnswlib {one} --rows": "0 | 1001 | {huge} | 5",
    "quick hnswlib {one} --minutes": "0 | nan | inf | -1 | 0.06 | {huge}",
    "quick hnswlib {one} --recall": "2 | nan | high",
    "quick hnswlib {one} --clients": "0 | {huge}",
    "quick hnswlib {one} --k": "0 | 10001 | {huge} | true",
    "quick milvus-lite {one}": "--clients=4",
    "init": "{suite} | --unknown",
    "init - --store": "nope | '' | \x1b[2J | a\nb",
    "init - {one} --experiment": "nope | ''",
    "init - --dataset": "nope | '' | {long}",
    "init - {one} --rows": "0 | {huge}",
    "init - {one} --repeats": "0 | 1001",
    "init - {one} --k": "0 | 1001 | {huge}",
    "init - {one} --name": "\x1b[2J | {long}",
    "capacity": "nope | '' | \x1b[31m | a\nb | {long}",
    "capacity hnswlib --dataset": "nope | '' | a\nb | {long}",
    "capacity hnswlib {one} --rows": "0 | {huge}",
    "capacity hnswlib {one} --p99": "20 | 0ms | -1ms | nan | '' | {nines}s | {huge}s",
    "capacity hnswlib {one} --recall": "2 | nan | high",
    "capacity hnswlib {one} --errors": "1 | nan",
    "capacity hnswlib {one} --index": "flat | ''",
    "capacity hnswlib {one} --param": (
        "m | m= | m=true | m=many | m=0 | m=nan | ef_construction=4000000000 | speed=9"
    ),
    "capacity hnswlib {one} --search": "ef_search=0 | speed=1 | =1",
    "capacity hnswlib {one} --lane": "fast | native | ''",
    "capacity hnswlib {one} --k": "0 | 10001 | {huge} | true",
    "capacity hnswlib {one} --seconds": "0 | 1e300 | nan",
    "capacity hnswlib {one} --confirm-seconds": "inf | 1e9",
    "capacity hnswlib {one} --resolution": "0 | 2",
    "capacity hnswlib {one} --max-rate": "0 | 1e300",
    "capacity hnswlib {one} --repeats": "{huge}",
    "fit": "nope | '' | hnswlib nope",
    "fit hnswlib --dataset": "nope",
    "fit hnswlib {one} --rows": "0 | {huge}",
    "fit hnswlib {one} --p99": "20 | 0ms | nan",
    "fit hnswlib {one} --recall": "2 | nan",
    "fit hnswlib {one} --load-factor": "1 | nan | 1e300",
    "fit hnswlib {one} --rate": "0 | nan | 1e300",
    "fit hnswlib {one} --clients": "0 | {huge}",
    "fit hnswlib {one} --index": "flat",
    "fit hnswlib {one} --param": "m=0 | speed=1",
    "fit hnswlib {one} --search": "ef_search=0 | =1",
    "fit hnswlib {one} --lane": "fast | native",
    "fit hnswlib {one} --seconds": "0 | nan | 1e300",
    "fit hnswlib {one} --confirmations": "0 | 1000",
    "fit hnswlib {one} --resolution": "0 | 2",
    "fit hnswlib {one} --prices": "nope.toml",
    "fit hnswlib {one} --resume": "nope",
    "tune": "nope",
    "tune hnswlib --dataset": "nope",
    "tune hnswlib {one} --budget": "0",
    "tune hnswlib {one} --seconds": "0 | 1e300 | nan",
    "tune hnswlib {one} --memory": "much | {nines}GiB | -1GiB",
    "tune hnswlib {one} --p99": "fast",
    "tune hnswlib {one} --index": "flat",
    "tune hnswlib {one} --seed": "-1 | {huge}",
    "tune hnswlib {one} --k": "{huge}",
    "tune hnswlib {one} --rows": "{huge}",
    "tune hnswlib {one} --resume": "{none}",
    "data": "import | fetch",
    "data import": "{none}",
    "data import /dev/zero --metric": "l2",
    "data import {long} --metric": "l2",
    "data import {npy} --metric": "\x1b[2J",
    "data import {npy} --metric l2 --rows": "{huge}x",
    "data import {npy} --metric l2 --queries": "{huge}",
    "data import {npy} --metric l2 --seed": "x | -1",
    "data fetch": "nope | '' | clustered-8-0 | clustered-999999-1k | \x1b[2J | ../../etc",
    "data fetch glove-words-50 --rows": "0 | {huge}",
    "data truth": "nope | a\nb",
    "data truth nope -k": "0",
    "data inspect": "nope | {none}.npy | /dev/zero",
    "data inspect {npy} --rows": "0",
    "data inspect {npy} --metric": "taxi",
    "data remove": "nope | ../..",
    "report": "{none} | {npy} | /dev/zero | {long}",
    "compare {npy}": "{npy}",
    "bundle": "{none} | /dev/zero",
    "serve --port": "-1 | 70000 | http",
    "serve --host": "0.0.0.0",
    "reproduce": "nope",
    "reproduce milvus-weaviate --scale": "0 | nan | 7",
    "reproduce milvus-weaviate --store": "nope",
    "reproduce milvus-weaviate --repeats": "{huge}",
    "reproduce milvus-weaviate --resume": "{none}",
    "stores": "nope | ''",
    "experiments": "nope",
    "up": "nope | hnswlib",
    "up redis --cpus": "0 | nan | 1e300",
    "up redis --memory": "much | 0GiB",
    "up redis --provider": "cloud | external",
    "down": "nope",
    "": "run | capacity | down | nonsense | --nonsense",
    "run --resume {none} --out": "x",
    "compare {none}": "{none}",
}


def filled(template: str, names: dict[str, str]) -> str:
    """The template with its names replaced; anything else in braces stays."""
    for name, word in names.items():
        template = template.replace(f"{{{name}}}", word)
    return template


@pytest.mark.parametrize(
    ("words", "last"), [(words, last) for words in CASES for last in CASES[words].split(" | ")]
)
def test_what_cannot_be_meant(refused: Refused, given: Path, words: str, last: str) -> None:
    (given / "suite.toml").write_text(BASE)
    (given / "a.npy").write_bytes(data_files.GOOD_NPY)
    files = {"suite": given / "suite.toml", "none": given / "none", "npy": given / "a.npy"}
    names = WORDS | {name: str(path) for name, path in files.items()}
    refused(*filled(words, names).split(), "" if last == "''" else filled(last, names))


#: Of each kind one, as a person would call it.
REAL = {
    "suite": (BASE.replace("k = 10", "k = true"), ("run", "suite.toml")),
    "trace": (
        with_experiment("search", 'arrivals = "trace"\ntrace = "/dev/zero"'),
        ("run", "suite.toml", "--dry-run"),
    ),
    "repeats": (BASE, ("run", "suite.toml", "--repeats", HUGE)),
    "name": (BASE, ("data", "import", "suite.toml", "--name", "\x1b[2J")),
}


@pytest.mark.slow
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
