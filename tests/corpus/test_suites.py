"""Suites that cannot be meant are refused, before anything is made; good ones are planned."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Call
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
experiment = "recall_sweep"
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


TOP = [
    'name = ""',
    'name = " "',
    'name = "a\\u0000b"',
    'name = "a\\nb"',
    'name = "\\u001b[2J"',
    'name = "\\u0085"',
    'name = "a\\u2028b"',
    f'name = "{"n" * 300}"',
    f'name = "{"ü" * 101}"',
    "name = 7",
    "name = true",
    "name = []",
    "repeats = 0",
    "repeats = -1",
    "repeats = 1001",
    "repeats = 99999999999999999999",
    "repeats = true",
    'repeats = "3"',
    "repeats = 1.5",
    "repeats = nan",
    "repeats = inf",
    "repeats = []",
    "k = true",
    "k = false",
    'k = "10"',
    "k = 0",
    "k = -1",
    "k = 10001",
    "k = 1e308",
    "k = 2001",
    "k = nan",
    "k = [10]",
    "k = 2.5",
    "seed = 100000000000000000000000",
    "seed = 9223372036854775807",
    "seed = -1",
    "seed = true",
    'seed = "42"',
    "seed = 1.5",
    "seed = inf",
    "batch_rows = 9000000000000000000",
    "batch_rows = 1e18",
    "batch_rows = 0",
    "batch_rows = -5",
    "batch_rows = true",
    'batch_rows = "1000"',
    "trial_timeout_s = 0",
    "trial_timeout_s = -1",
    "trial_timeout_s = 1e300",
    "trial_timeout_s = inf",
    "trial_timeout_s = nan",
    "trial_timeout_s = true",
    'trial_timeout_s = "60"',
    'order = "random"',
    "order = 1",
    'durability = "forever"',
    "durability = true",
    "durability = 1",
    "description = 5",
    "placement = 5",
    "placement = { threads = 0 }",
    "placement = { threads = 1000000 }",
    "placement = { threads = true }",
    'placement = { threads = "1" }',
    "placement = { client_cores = [-1] }",
    "placement = { client_cores = [true] }",
    'placement = { client_cores = ["0"] }',
    "placement = { client_cores = 0 }",
    "placement = { server_cpus = 0 }",
    "placement = { server_cpus = nan }",
    "placement = { server_cpus = inf }",
    "placement = { server_cpus = 1e300 }",
    'placement = { server_memory = "much" }',
    'placement = { server_memory = "0GiB" }',
    f'placement = {{ server_memory = "{"9" * 400}GiB" }}',
    'placement = { server_memory = "99999999999999GiB" }',
    "placement = { server_memory = 5 }",
    "placement = { dedicated = 1 }",
    'placement = { dedicated = "yes" }',
    "placement = { core = 1 }",
    "client_limits = { cpu_share = 0 }",
    "client_limits = { cpu_share = -1 }",
    "client_limits = { cpu_share = nan }",
    "client_limits = { cpu_share = true }",
    'client_limits = { cpu_share = "0.8" }',
    "client_limits = { lag_us = inf }",
    "client_limits = { unknown = 1 }",
    "datasets = []",
    "stores = []",
    "experiments = []",
    "nonsense = 1",
]

PRICES = [
    "dated = 9999-12-31",
    "dated = 2999-01-01",
    'dated = "soon"',
    "dated = 12",
    "dated = true",
    "dated = 10:00:00",
    'source = ""',
    'source = "a\\u001b[2Jb"',
    "source = 1",
    'currency = ""',
    'currency = "DOLLARSXX"',
    'currency = "\\n"',
    "currency = 1",
    "vcpu_hour = -0.1",
    "vcpu_hour = nan",
    "vcpu_hour = inf",
    "vcpu_hour = 1e308",
    'vcpu_hour = "0.04"',
    "vcpu_hour = true",
    "gib_hour = -1",
    "gib_hour = 1e300",
    "gib_month = -1",
    'gib_month = "0.1"',
    "per_second = 1",
]

DATASETS = [
    'name = ""',
    'name = "a\\u0000b"',
    'name = "a\\nb"',
    'name = "\\u001b]0;x\\u0007"',
    'name = "../../etc"',
    f'name = "{"n" * 300}"',
    "name = 5",
    'name = "clustered-16-0"',
    'name = "clustered-0-2k"',
    'name = "glove-words-51"',
    "rows = 0",
    "rows = -1",
    "rows = true",
    'rows = "10"',
    "rows = 1e300",
    "rows = 2001",
    "rows = 99999999999999999999",
    "rows = 5",
    "queries = 0",
    "queries = true",
    "queries = 99999999999",
    'metadata = "no"',
    "metadata = 0",
    "column = 1",
]

STORES = [
    'store = ""',
    'store = "nope"',
    'store = "a\\u001b[31m"',
    'store = "a\\nb"',
    f'store = "{"s" * 300}"',
    "store = 5",
    'index = ""',
    'index = "\\u0000"',
    'index = "flat"',
    "index = 5",
    "params = { m = 0 }",
    "params = { m = true }",
    'params = { m = "16" }',
    "params = { m = 1.5 }",
    "params = { m = nan }",
    "params = { m = 100000 }",
    "params = { m = [] }",
    "params = { m = [16, true] }",
    "params = { m = { a = 1 } }",
    "params = { ef_construction = 0 }",
    "params = { ef_construction = 4000000000 }",
    "params = { ef_construction = 9223372036854775807 }",
    "params = { ef_construction = 1e300 }",
    "params = { speed = 1 }",
    "params = 5",
    f"params = {{ m = {list(range(2, 502))}, ef_construction = {list(range(1, 501))} }}",
    f"params = {{ ef_construction = {list(range(1, 1002))} }}",
    "lane = []",
    'lane = "fast"',
    "lane = 1",
    'lane = ["embedded", "fast"]',
    "datasets = []",
    'datasets = ["other"]',
    "datasets = [5]",
    "experiments = []",
    'experiments = ["other"]',
    'durability = "forever"',
    "durability = true",
    'provider = "cloud"',
    'provider = "local"',
    "provider = 1",
    "extra = 1",
]

EXPERIMENTS = [
    ("recall_sweep", "min_s = -1"),
    ("recall_sweep", "min_s = nan"),
    ("recall_sweep", "min_s = 1e300"),
    ("recall_sweep", "min_s = true"),
    ("recall_sweep", 'min_s = "1"'),
    ("recall_sweep", "min_s = 5\nmax_s = 1"),
    ("recall_sweep", "min_s = 21"),
    ("recall_sweep", "max_s = 0"),
    ("recall_sweep", "max_s = 1e300"),
    ("recall_sweep", "warmup_queries = 1e11"),
    ("recall_sweep", "warmup_queries = 100000000000"),
    ("recall_sweep", "warmup_queries = -1"),
    ("recall_sweep", "warmup_queries = true"),
    ("recall_sweep", "search = { ef_search = 0 }"),
    ("recall_sweep", "search = { ef_search = true }"),
    ("recall_sweep", 'search = { ef_search = "64" }'),
    ("recall_sweep", "search = { ef_search = [] }"),
    ("recall_sweep", "search = { ef_search = 4000000000 }"),
    ("recall_sweep", f"search = {{ ef_search = {list(range(1, 10_002))} }}"),
    ("recall_sweep", "search = { speed = 1 }"),
    ("recall_sweep", "search = []"),
    ("recall_sweep", "search = 5"),
    ("recall_sweep", "returns = []"),
    ("recall_sweep", 'returns = "everything"'),
    ("recall_sweep", "returns = 1"),
    ("recall_sweep", "stores = []"),
    ("recall_sweep", 'stores = ["other"]'),
    ("recall_sweep", "unknown = 1"),
    ("concurrency", "clients = []"),
    ("concurrency", "clients = [0]"),
    ("concurrency", "clients = [100000000]"),
    ("concurrency", "clients = [99999999999999999999]"),
    ("concurrency", "clients = [true]"),
    ("concurrency", 'clients = ["8"]'),
    ("concurrency", 'clients = "8"'),
    ("concurrency", "clients = [1.5]"),
    ("concurrency", f"clients = {list(range(1, 10_000)) * 11}\nduration_s = 0"),
    ("concurrency", "duration_s = 1e300"),
    ("concurrency", "duration_s = 86401"),
    ("concurrency", "duration_s = 0"),
    ("concurrency", "duration_s = true"),
    ("open_loop", ""),
    ("open_loop", "rates = []"),
    ("open_loop", "rates = [0]"),
    ("open_loop", "rates = [-1]"),
    ("open_loop", "rates = [1e300]"),
    ("open_loop", "rates = [nan]"),
    ("open_loop", "rates = [true]"),
    ("open_loop", 'rates = ["100"]'),
    ("open_loop", "rates = [100]\nduration_s = 1e300"),
    ("open_loop", "rates = [100]\nin_flight = 0"),
    ("open_loop", "rates = [100]\nin_flight = 99999999999"),
    ("open_loop", 'rates = [100]\narrivals = "bursts"'),
    ("open_loop", 'arrivals = "trace"'),
    ("open_loop", "rates = [100]\ntrace = [0.1, 0.2]"),
    ("open_loop", 'arrivals = "trace"\ntrace = []'),
    ("open_loop", 'arrivals = "trace"\ntrace = [0, 0]'),
    ("open_loop", 'arrivals = "trace"\ntrace = [2, 1]'),
    ("open_loop", 'arrivals = "trace"\ntrace = [-1, 1]'),
    ("open_loop", 'arrivals = "trace"\ntrace = [nan]'),
    ("open_loop", 'arrivals = "trace"\ntrace = [inf]'),
    ("open_loop", 'arrivals = "trace"\ntrace = ["1"]'),
    ("open_loop", 'arrivals = "trace"\ntrace = [true]'),
    ("open_loop", 'arrivals = "trace"\ntrace = 5'),
    ("capacity", "p99_ms = 0"),
    ("capacity", "p99_ms = 1e300"),
    ("capacity", "recall = 2"),
    ("capacity", "recall = true"),
    ("capacity", "errors = 0.5"),
    ("capacity", "resolution = 0"),
    ("capacity", "confirmations = 0"),
    ("capacity", "confirmations = 100000000"),
    ("capacity", "confirm_s = 1e300"),
    ("capacity", "duration_s = inf"),
    ("capacity", "most_rate = 1e300"),
    ("capacity", "most_rate = 0"),
    ("crud", "samples = 1e11"),
    ("crud", "samples = 100000000000"),
    ("crud", "samples = 100001"),
    ("crud", "samples = 0"),
    ("crud", "samples = true"),
    ("crud", 'samples = "1000"'),
    ("crud", "max_s = 1e300"),
    ("crud", "max_s = 0"),
    ("crud", "limit = 0"),
    ("crud", "limit = 1e15"),
    ("mixed", "operations = 1"),
    ("mixed", "operations = 1e11"),
    ("mixed", "searches = 0"),
    ("mixed", "searches = 1e308"),
    ("mixed", "inserts = -1"),
    ("mixed", "inserts = 0\nupdates = 0\ndeletes = 0"),
    ("mixed", "rates = { search = 100 }"),
    ("mixed", "rates = { search = 100, drop = 1 }"),
    ("mixed", "rates = { search = 1e300, insert = 1 }"),
    ("mixed", "rates = { search = true, insert = 1 }"),
    ("mixed", "clients = 0"),
    ("mixed", "clients = 1000000000"),
    ("mixed", "max_s = 1e300"),
    ("ingest", "checkpoints = []"),
    ("ingest", "checkpoints = [0]"),
    ("ingest", "checkpoints = [2.5]"),
    ("ingest", "checkpoints = [true]"),
    ("ingest", "concurrency = 0"),
    ("ingest", "concurrency = [1000000]"),
    ("ingest", "batch_rows = 9000000000000000000"),
    ("ingest", "probes = 1e9"),
    ("ingest", "probe_limit_s = 1e300"),
    ("ingest", "settle_s = 1e300"),
    ("ingest", "settle_s = -1"),
    ("filtered", "selectivities = [0]"),
    ("filtered", "selectivities = [2]"),
    ("filtered", "selectivities = [true]"),
    ("filtered", 'predicates = ["near"]'),
    ("filtered", "payload_index = []"),
    ("filtered", "depths = [9]"),
    ("filtered", "pivots = 1000"),
    ("filtered", "checks = -1"),
    ("filtered", "checks = 1e12"),
    ("filtered", "clients = [100000000]"),
    ("filtered", "min_s = 30"),
    ("size_sweep", "sizes = []"),
    ("size_sweep", "sizes = [-1]"),
    ("size_sweep", "min_s = 5\nmax_s = 2"),
    ("storage", "settle_s = 1e300"),
    ("storage", "checkpoints = []"),
    ("export", "page_rows = 0"),
    ("export", "page_rows = 1e15"),
    ("export", "min_s = 1e300"),
    ("condition", "samples = 1e11"),
    ("condition", "indexed = []"),
    ("condition", 'indexed = ["on"]'),
    ("condition", "max_s = nan"),
    ("time_to_searchable", "looks = 1e9"),
    ("time_to_searchable", "probes = 0"),
    ("transport", "mixed_s = 1e300"),
    ("transport", "mixed_rows = 0"),
    ("transport", "clients = []"),
    ("scalar_index_overhead", "fields = 1000"),
    ("scalar_index_overhead", "rounds = 0"),
    ("hybrid", "alphas = [2]"),
    ("hybrid", "candidates = 1e12"),
    ("hybrid", "clients = 0"),
    ("anomaly", "copies = 1000"),
    ("anomaly", "calibration = 1"),
    ("nonsense", ""),
    ("", ""),
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
    "same-twice": BASE + '[[experiments]]\nexperiment = "recall_sweep"\n',
    "many-trials": with_top("repeats = 1000").replace(
        'experiment = "recall_sweep"',
        f'experiment = "recall_sweep"\nsearch = {{ ef_search = {list(range(1, 501))} }}',
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


@pytest.mark.parametrize("line", TOP, ids=lambda line: line[:40])
def test_keys_of_the_suite(plan: Callable[[str], str], line: str) -> None:
    plan(with_top(line))


@pytest.mark.parametrize("line", PRICES, ids=lambda line: line[:40])
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


@pytest.mark.parametrize("lines", DATASETS, ids=lambda line: line[:40])
def test_datasets_of_a_suite(plan: Callable[[str], str], lines: str) -> None:
    plan(with_part("datasets", lines))


@pytest.mark.parametrize("lines", STORES, ids=lambda line: line[:40])
def test_stores_of_a_suite(plan: Callable[[str], str], lines: str) -> None:
    plan(with_part("stores", lines))


@pytest.mark.parametrize(("name", "line"), EXPERIMENTS, ids=lambda text: text[:40])
def test_experiments_of_a_suite(plan: Callable[[str], str], name: str, line: str) -> None:
    plan(with_experiment(name, line))


@pytest.mark.parametrize("text", WHOLE.values(), ids=WHOLE)
def test_whole_suites(plan: Callable[[str], str], text: str) -> None:
    plan(text)


def test_a_grid_of_builds_names_its_size(plan: Callable[[str], str]) -> None:
    grid = f"params = {{ m = {list(range(2, 502))}, ef_construction = {list(range(1, 501))} }}"
    assert "250,000 builds" in plan(with_part("stores", grid))


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
    said = plan(with_experiment("open_loop", f'arrivals = "trace"\ntrace = "{path}"'))
    assert "20228" not in said


def test_the_trace_of_a_bundle(refused: Refused, given: Path) -> None:
    """A bundle is somebody else's: its suite reads no device, and shows nothing of a file."""
    secret = given / "secret.txt"
    secret.write_text("root:*:20228:0:99999:7:::\n")
    for number, path in enumerate(("/dev/zero", secret)):
        with RunWriter(given / f"r{number}") as writer:
            writer.begin(suite_name="s", command="c", version="0", environment={})
        text = with_experiment("open_loop", f'arrivals = "trace"\ntrace = "{path}"')
        (given / f"r{number}" / "suite.toml").write_text(text)
        sealed = bundle.seal(given / f"r{number}").path
        kept = sealed.rename(given / sealed.name)
        assert "20228" not in refused("run", "--from", str(kept), "--dry-run")


def test_a_trace_that_is_too_long(
    plan: Callable[[str], str], given: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vectrial.experiments import open_loop

    monkeypatch.setattr(open_loop, "_TRACE_BYTES", 1 << 20)
    (given / "long.txt").write_text("1\n" * (1 << 20))
    path = given / "long.txt"
    said = plan(with_experiment("open_loop", f'arrivals = "trace"\ntrace = "{path}"'))
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
    "a trace": with_experiment("open_loop", 'arrivals = "trace"\ntrace = [0, 0.5, 1]'),
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
