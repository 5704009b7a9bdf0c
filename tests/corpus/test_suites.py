"""Suites that cannot be meant are refused, before anything is made; good ones are planned."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_calls import Call

from vectrial.results import bundle
from vectrial.results.writer import RunWriter

Refused = Callable[..., str]

BASE = """\
name = "mine"
repeats = 1
k = 10
[[datasets]]
name = "clustered-16-2k"
[[stores]]
store = "hnswlib"
index = "hnsw"
[[experiments]]
experiment = "search"
"""


def with_top(line: str) -> str:
    """BASE with one more key of the suite, in place of its own where it has it."""
    key = line.partition("=")[0].strip()
    kept = [one for one in BASE.splitlines() if one.partition("=")[0].strip() != key]
    if key == "name":
        kept = BASE.splitlines()[1:]
    return "\n".join([line, *kept])


def with_part(part: str, lines: str) -> str:
    """BASE with more lines in one of its parts; keys that it has are replaced."""
    keys = [line.partition("=")[0].strip() for line in lines.splitlines()]
    made, inside = [], False
    for one in BASE.splitlines():
        if one.startswith("[["):
            inside = one == f"[[{part}]]"
        if not (inside and one.partition("=")[0].strip() in keys):
            made.append(one)
        if one == f"[[{part}]]":
            made += lines.splitlines()
    return "\n".join(made)


def with_experiment(name: str, line: str) -> str:
    """BASE with another experiment."""
    head, _, _ = BASE.partition("[[experiments]]")
    return f'{head}[[experiments]]\nexperiment = "{name}"\n{line}\n'


#: Values that a key cannot have. `a.b` is the key b of the inline table a.
TOP = {
    "name": (
        '"" | " " | "a\\u0000b" | "a\\nb" | "\\u001b[2J" | "\\u0085" | "a\\u2028b" | '
        f'"{"n" * 300}" | "{"ü" * 101}" | 7 | true | []'
    ),
    "repeats": '0 | -1 | 1001 | 99999999999999999999 | true | "3" | 1.5 | nan | inf | []',
    "k": 'true | false | "10" | 0 | -1 | 10001 | 1e308 | 2001 | nan | [10] | 2.5',
    "seed": '100000000000000000000000 | 9223372036854775807 | -1 | true | "42" | 1.5 | inf',
    "batch_rows": '9000000000000000000 | 1e18 | 0 | -5 | true | "1000"',
    "trial_timeout_s": '0 | -1 | 1e300 | inf | nan | true | "60"',
    "order": '"random" | 1',
    "durability": '"forever" | true | 1',
    "description": "5",
    "placement": "5",
    "placement.threads": '0 | 1000000 | true | "1"',
    "placement.client_cores": '[-1] | [true] | ["0"] | 0',
    "placement.server_cpus": "0 | nan | inf | 1e300",
    "placement.data_disk": f'"much" | "0GiB" | "{"9" * 400}GiB" | 5',
    "placement.server_memory": f'"much" | "0GiB" | "{"9" * 400}GiB" | "99999999999999GiB" | 5',
    "placement.dedicated": '1 | "yes"',
    "placement.core": "1",
    "client_limits.cpu_share": '0 | -1 | nan | true | "0.8"',
    "client_limits.lag_us": "inf",
    "client_limits.unknown": "1",
    "datasets": "[]",
    "stores": "[]",
    "experiments": "[]",
    "nonsense": "1",
}

PRICES = {
    "dated": '9999-12-31 | 2999-01-01 | "soon" | 12 | true | 10:00:00',
    "source": '"" | "a\\u001b[2Jb" | 1',
    "currency": '"" | "DOLLARSXX" | "\\n" | 1',
    "vcpu_hour": '-0.1 | nan | inf | 1e308 | "0.04" | true',
    "gib_hour": "-1 | 1e300",
    "gib_month": '-1 | "0.1"',
    "per_second": "1",
}

DATASETS = {
    "name": (
        '"" | "a\\u0000b" | "a\\nb" | "\\u001b]0;x\\u0007" | "../../etc" | 5 | "clustered-16-0" | '
        f'"clustered-0-2k" | "glove-words-51" | "{"n" * 300}"'
    ),
    "rows": '0 | -1 | true | "10" | 1e300 | 2001 | 99999999999999999999 | 5',
    "queries": "0 | true | 99999999999",
    "metadata": '"no" | 0',
    "column": "1",
}

GRID = f"m = {list(range(2, 502))}, ef_construction = {list(range(1, 501))}"
STORES = {
    "store": f'"" | "nope" | "a\\u001b[31m" | "a\\nb" | 5 | "{"s" * 300}"',
    "index": '"" | "\\u0000" | "flat" | 5',
    "params.m": '0 | true | "16" | 1.5 | nan | 100000 | [] | [16, true] | { a = 1 }',
    "params.ef_construction": (
        f"0 | 4000000000 | 9223372036854775807 | 1e300 | {list(range(1, 1002))}"
    ),
    "params.speed": "1",
    "params": f"5 | {{ {GRID} }}",
    "lane": '[] | "fast" | 1 | ["embedded", "fast"]',
    "datasets": '[] | ["other"] | [5]',
    "experiments": '[] | ["other"]',
    "durability": '"forever" | true',
    "provider": '"cloud" | "local" | 1',
    "extra": "1",
}

EXPERIMENTS = {
    "search": {
        "min_s": '-1 | nan | 1e300 | true | "1" | 21',
        "min_s = 5\nmax_s": "1",
        "max_s": "0 | 1e300",
        "warmup_queries": "1e11 | 100000000000 | -1 | true",
        "search.ef_search": f'0 | true | "64" | [] | 4000000000 | {list(range(1, 10_002))}',
        "search.speed": "1",
        "search": "[] | 5",
        "returns": '[] | "everything" | 1',
        "stores": '[] | ["other"]',
        "unknown": "1",
        "clients": '[] | [0] | [100000000] | [99999999999999999999] | [true] | ["8"] | "8" | [1.5]',
        "duration_s": "1e300 | 86401 | 0 | true",
        "duration_s = 0\nclients": f"{list(range(1, 10_000)) * 11}",
        "rates": '[] | [0] | [-1] | [1e300] | [nan] | [true] | ["100"]',
        "rates = [100]\nduration_s": "1e300",
        "rates = [100]\nin_flight": "0 | 99999999999",
        "rates = [100]\narrivals": '"bursts"',
        "rates = [100]\ntrace": "[0.1, 0.2]",
        "arrivals": '"trace"',
        "sizes": "[] | [-1]",
        'arrivals = "trace"\ntrace': (
            '[] | [0, 0] | [2, 1] | [-1, 1] | [nan] | [inf] | ["1"] | [true] | 5'
        ),
    },
    "capacity": {
        "p99_ms": "0 | 1e300",
        "recall": "2 | true",
        "errors": "0.5",
        "resolution": "0",
        "confirmations": "0 | 100000000",
        "confirm_s": "1e300",
        "duration_s": "inf",
        "most_rate": "1e300 | 0",
    },
    "fit": {
        "memory": '0 | [] | 512 | "4" | "4 parsecs" | "99999999999GiB" | ["1GiB", 1]',
        "processors": '0 | [] | -1 | 1e300 | "one"',
        "p99_ms": "0 | 1e300",
        "recall": "2 | true",
        "errors": "0.5",
        "rate": "0 | 1e300",
        "clients": "0 | 1e300",
        "duration_s": "inf",
        "load_limit_s": "0 | nan",
    },
    "crud": {
        "samples": '1e11 | 100000000000 | 100001 | 0 | true | "1000"',
        "max_s": "1e300 | 0",
        "limit": "0 | 1e15",
    },
    "mixed": {
        "operations": "1 | 1e11",
        "searches": "0 | 1e308",
        "inserts": "-1",
        "inserts = 0\nupdates = 0\ndeletes": "0",
        "rates.search": "100 | 100, drop = 1 | 1e300, insert = 1 | true, insert = 1",
        "clients": "0 | 1000000000",
        "max_s": "1e300",
    },
    "ingest": {
        "checkpoints": "[] | [0] | [2.5] | [true]",
        "payload_index": '[] | ["fixed"]',
        'payload_index = ["on"]\nfields': "1000",
        "rounds": "0 | 2",
        "concurrency": "0 | [1000000]",
        "batch_rows": "9000000000000000000",
        "probes": "1e9",
        "probe_limit_s": "1e300",
        "settle_s": "1e300 | -1",
    },
    "filtered": {
        "selectivities": "[0] | [2] | [true]",
        "predicates": '["near"]',
        "payload_index": "[]",
        "depths": "[9]",
        "pivots": "1000",
        "checks": "-1 | 1e12",
        "clients": "[100000000]",
        "min_s": "30",
    },
    "storage": {"rows = [1.0]\nsettle_s": "1e300", "settle_s": "5", "rows": "[] | [-1] | [1.5]"},
    "condition": {"samples": "1e11", "indexed": '[] | ["on"]', "max_s": "nan"},
    "time_to_searchable": {"looks": "1e9", "probes": "0"},
    "transport": {
        "mixed_s": "0 | 1e300",
        "mixed_rows": "0",
        "clients": "[]",
        "operations": '[] | ["mixed"]',
        "page_rows": "0 | 1e15",
        "min_s": "1e300",
    },
    "hybrid": {"alphas": "[2]", "candidates": "1e12", "clients": "0"},
    "anomaly": {"copies": "1000", "calibration": "1"},
}


def lines_of(table: dict[str, str]) -> Iterator[str]:
    """Each key with each of its values."""
    for key, values in table.items():
        outer, dot, inner = key.partition(".")
        for value in values.split(" | "):
            yield f"{outer} = {{ {inner} = {value} }}" if dot else f"{key} = {value}"


#: A part of the suite, the experiment in place of BASE's, and the lines that it cannot have.
LINES = [
    *(("", "", line) for line in lines_of(TOP)),
    *(("datasets", "", line) for line in lines_of(DATASETS)),
    *(("stores", "", line) for line in lines_of(STORES)),
    *(("", name, line) for name in EXPERIMENTS for line in lines_of(EXPERIMENTS[name])),
    *(("", name, "") for name in ("nonsense", " ")),
]

WHOLE = {
    "empty": "",
    "no-toml": "{",
    "unquoted": "name = mine",
    "twice": BASE + "\nexperiment = 1\nexperiment = 2\n",
    "only-name": 'name = "x"\n',
    "deep-list": "name = " + "[" * 5000,
    "deep-table": "[" + ".".join("a" * 1 for _ in range(3000)) + "]\n",
    "long-integer": with_top("k = " + "9" * 5000),
    "control": BASE + "\x00",
    "parts-are-tables": 'name = "x"\ndatasets = { name = "a" }\nstores = 1\nexperiments = 2\n',
    "same-twice": BASE + '[[experiments]]\nexperiment = "crud"\n' * 2,
    "many-trials": with_top("repeats = 1000").replace(
        'experiment = "search"',
        f'experiment = "search"\nsearch = {{ ef_search = {list(range(1, 501))} }}',
    ),
}


@pytest.fixture
def plan(refused: Refused, given: Path) -> Callable[[str], str]:
    """Refuse a suite in a dry run, and again where it would be measured."""

    def check(text: str) -> str:
        path = given / "suite.toml"
        path.write_text(text)
        return refused("run", str(path), "--dry-run")

    return check


@pytest.mark.parametrize(
    ("part", "experiment", "line"), LINES, ids=[f"{p or e or 'top'} {x[:40]}" for p, e, x in LINES]
)
def test_keys_of_a_suite(plan: Callable[[str], str], part: str, experiment: str, line: str) -> None:
    if experiment:
        plan(with_experiment(experiment.strip(), line))
    else:
        plan(with_part(part, line) if part else with_top(line))


@pytest.mark.parametrize("line", list(lines_of(PRICES)))
def test_prices(plan: Callable[[str], str], line: str) -> None:
    good = {
        "dated": "2026-11-01",
        "source": '"a list"',
        "currency": '"USD"',
        "vcpu_hour": "0.04",
        "gib_hour": "0.005",
        "gib_month": "0.1",
    }
    key, _, value = line.partition(" = ")
    good[key] = value
    lines = "\n".join(f"{name} = {one}" for name, one in good.items())
    plan(f"{BASE}[prices]\n{lines}\n")


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_whole_suites(plan: Callable[[str], str], text: str) -> None:
    plan(text)


def test_a_grid_of_builds_names_its_size(plan: Callable[[str], str]) -> None:
    assert "250,000 builds" in plan(with_part("stores", f"params = {{ {GRID} }}"))


@pytest.mark.parametrize(
    "trace", ["/dev/zero", "/dev/stdin", "none.txt", "/", "pipe", "secret.txt", "binary", "empty"]
)
def test_traces_that_are_no_file_of_times(
    plan: Callable[[str], str], given: Path, trace: str
) -> None:
    """A suite may come from elsewhere: nothing of the file that it names is shown."""
    os.mkfifo(given / "pipe")
    (given / "secret.txt").write_text("root:*:20228:0:99999:7:::\n")
    (given / "binary").write_bytes(b"\xff\xfe\x00")
    (given / "empty").write_bytes(b"")
    path = given / trace if (given / trace).exists() else Path(trace)
    said = plan(with_experiment("search", f'arrivals = "trace"\ntrace = "{path}"'))
    assert "20228" not in said


def test_the_trace_of_a_bundle(refused: Refused, given: Path) -> None:
    """A bundle is somebody else's: its suite reads no device, and shows nothing of a file."""
    secret = given / "secret.txt"
    secret.write_text("root:*:20228:0:99999:7:::\n")
    for number, path in enumerate(("/dev/zero", secret)):
        with RunWriter(given / f"r{number}") as writer:
            writer.begin(suite_name="s", command="c", version="0", environment={})
        text = with_experiment("search", f'arrivals = "trace"\ntrace = "{path}"')
        (given / f"r{number}" / "suite.toml").write_text(text)
        sealed = bundle.seal(given / f"r{number}").path
        kept = sealed.rename(given / sealed.name)
        assert "20228" not in refused("run", "--from", str(kept), "--dry-run")


def test_a_trace_that_is_too_long(
    plan: Callable[[str], str], given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vectrial.experiments import search

    monkeypatch.setattr(search, "_TRACE_BYTES", 1 << 20)
    (given / "long.txt").write_text("1\n" * (1 << 20))
    path = given / "long.txt"
    said = plan(with_experiment("search", f'arrivals = "trace"\ntrace = "{path}"'))
    assert "has more than 1 MiB" in said


@pytest.mark.parametrize(
    "path", ["/dev/zero", "/", "none.toml", "n" * 300 + ".toml", "binary.toml", "a\nb.toml"]
)
def test_files_that_are_no_suite(refused: Refused, given: Path, path: str) -> None:
    (given / "binary.toml").write_bytes(b"\xff\xfe\x00")
    found = given / path if (given / "binary.toml").name == path else Path(path)
    refused("run", str(found), "--dry-run")


GOOD = {
    "as it is": BASE,
    "the default index": BASE.replace('index = "hnsw"\n', ""),
    "long values": with_top('description = """' + "words\n" * 100 + '"""'),
    "umlauts": with_top('name = "Größe über alles, 東京"'),
    "the largest seed": with_top(f"seed = {2**62}"),
    "whole number as float": with_part("experiments", "min_s = 1"),
    "both limits": with_part("experiments", "min_s = 2\nmax_s = 2"),
    "the most only": with_part("experiments", "max_s = 0.5"),
    "a grid": with_part("stores", "params = { m = [8, 16], ef_construction = [40, 80] }"),
    "one lane": with_part("stores", 'lane = ["embedded"]'),
    "prices of today": BASE
    + '[prices]\ndated = 2026-11-01\nsource = "list"\ncurrency = "EUR"\nvcpu_hour = 0\n'
    "gib_hour = 0.005\ngib_month = 1\n",
    "a trace": with_experiment("search", 'arrivals = "trace"\ntrace = [0, 0.5, 1]'),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_good_suites(call: Call, given: Path, text: str) -> None:
    path = given / "suite.toml"
    path.write_text(text)
    said = call("run", str(path), "--dry-run", "--format", "jsonl")
    assert said.code == 0, said
    assert said.out.count('"kind": "trial"') >= 1


def test_a_suite_that_cannot_be_meant_makes_no_run(refused: Refused, given: Path) -> None:
    path = given / "suite.toml"
    for text in (with_top("k = true"), with_top("placement = { server_cores = [99999] }")):
        path.write_text(text)
        refused("run", str(path))
