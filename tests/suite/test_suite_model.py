"""Suite files: their model, those that come with Vectrial, and files with a comment on each key."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from command_calls import call
from hypothesis import given
from hypothesis import strategies as st

from vectrial.experiments.registry import EXPERIMENTS
from vectrial.experiments.search import Search
from vectrial.model.errors import UserError
from vectrial.run.prepare import toml_of
from vectrial.suite import builtin
from vectrial.suite.commented import commented_text, field_texts
from vectrial.suite.model import StoreRef, Suite, parse_suite, read_suite

GOOD = """
name = "t"
repeats = 2
[[datasets]]
name = "clustered-8-1k"
rows = 500
[[stores]]
store = "memory"
index = "flat"
params = { m = [8, 16] }
[[experiments]]
experiment = "search"
search = { ef_search = [16, 32] }
"""


def test_good_suite_keeps_every_value() -> None:
    suite = parse_suite(GOOD, "t.toml")
    assert (suite.name, suite.repeats, suite.k, suite.seed) == ("t", 2, 10, 42)
    assert suite.datasets[0].rows == 500
    assert suite.stores[0].params == {"m": [8, 16]}
    assert suite.experiments[0].parameters() == {"search": {"ef_search": [16, 32]}}


@pytest.mark.parametrize(
    ("old", "new", "order"),
    [
        ("m = [8, 16]", "m = [8, 16]", "turns"),
        ("m = [8, 16]", "m = 8", "suite"),
        ("m = [8, 16] }", 'm = 8 }\n[[stores]]\nstore = "faiss"', "turns"),
        ("m = [8, 16] }", 'm = 8 }\n[[stores]]\nstore = "faiss"\nnodes = 2', "suite"),
        ("repeats = 2", "placement = { client_machines = 2 }", "suite"),
        ("repeats = 2", 'order = "interleaved"', "interleaved"),
    ],
)
def test_builds_that_are_compared_on_one_machine_take_turns_unless_the_suite_says_otherwise(
    old: str, new: str, order: str
) -> None:
    assert old in GOOD
    suite = parse_suite(GOOD.replace(old, new, 1), "t.toml")
    assert suite.order == order
    assert parse_suite(toml_of(suite), "t.toml") == suite


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("repeats = 2", "repeat = 2", ["unknown key 'repeat'", "did you mean 'repeats'?"]),
        ("rows = 500", "row = 500", ["datasets[0].row", "did you mean 'rows'?"]),
        ("rows = 500", "rows = 0", ["datasets[0].rows", "greater than 0", "got 0"]),
        ("rows = 500", 'rows = "many"', ["datasets[0].rows", "integer", "'many'"]),
        ('store = "memory"', 'stor = "memory"', ["stores[0].stor", "did you mean 'store'?"]),
        ('store = "memory"', "", ["stores[0].store", "missing"]),
        ("repeats = 2", "repeats = 0", ["repeats", "greater than or equal to 1"]),
        ("[[experiments]]\nexperiment", "[[experiment]]\nexperiment", ["unknown key 'experiment'"]),
        ('name = "t"', "name = t", ["not valid TOML", "line 2"]),
    ],
)
def test_bad_suite_names_file_key_and_remedy(old: str, new: str, named: list[str]) -> None:
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        parse_suite(GOOD.replace(old, new, 1), "t.toml")
    message = str(caught.value)
    assert message.startswith("t.toml: ")
    for part in named:
        assert part in message
    assert "\n" not in message


def test_absent_file_is_one_clear_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml.*cannot be read"):
        read_suite(tmp_path / "none.toml")


ROOT = Path(__file__).resolve().parents[2]


def test_every_suite_of_the_checkout_is_shipped_and_valid() -> None:
    files = (*ROOT.glob("suites/*.toml"), *ROOT.glob("packages/*/src/*/suites/*.toml"))
    there = {path.stem: path for path in files}
    assert builtin.names() == tuple(sorted(there))
    for name in builtin.names():
        file = builtin.suite_file(Path(name))
        assert file.resolve() == there[name]
        assert read_suite(file).name


def test_a_file_comes_before_a_shipped_suite_and_a_folder_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert builtin.suite_file(Path("demo")).name == "demo.toml"
    Path("demo").rmdir()
    Path("demo").touch()
    assert builtin.suite_file(Path("demo")) == Path("demo")


@pytest.mark.parametrize("path", ["mine.toml", "folder/demo", "my.suite"])
def test_paths_are_no_names(path: str) -> None:
    assert builtin.suite_file(Path(path)) == Path(path)


def test_a_package_of_plug_ins_brings_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "suites").mkdir()
    for name in ("demo", "theirs"):
        (tmp_path / "suites" / f"{name}.toml").touch()
    monkeypatch.setattr(builtin.plugins, "packages", lambda: {"theirs": tmp_path})
    assert builtin.suite_file(Path("theirs")) == tmp_path / "suites" / "theirs.toml"
    assert builtin.suite_file(Path("demo")).resolve() == ROOT / "suites" / "demo.toml"


def test_an_unknown_name_lists_the_shipped_ones() -> None:
    with pytest.raises(UserError) as caught:
        builtin.suite_file(Path("dmeo"))
    assert "did you mean 'demo'?" in str(caught.value)
    assert all(name in str(caught.value) for name in builtin.names())
    with pytest.raises(UserError) as caught:
        builtin.suite_file(Path("xxxxxxxx"))
    assert str(caught.value).count("demo") == 1, "listed once, where nothing is near"


@pytest.mark.parametrize("path", ["suites/demo.toml", "demo.toml"])
def test_the_path_of_a_checkout_elsewhere_leads_to_the_name(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="vectrial run demo"):
        builtin.suite_file(Path(path))


def test_the_command_names_the_shipped_suites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["run"], ["run", "no-such-suite"]):
        done = call(*words)
        assert done.code == 2
        assert "demo" in done.err
        assert "tenants" in done.err
    assert "tenants" in " ".join(call("run", "--help").out.split())


#: Of printable ASCII.
names = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20).filter(
    str.strip
)
scalars = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
)  # fmt: skip
params = st.dictionaries(names, st.one_of(scalars, st.lists(scalars, min_size=1, max_size=3)))
suites = st.builds(
    lambda name, repeats, k, rows, params, search, prose: Suite.model_validate(
        {
            "name": name,
            "description": prose,
            "repeats": repeats,
            "k": k,
            "placement": {"client_cores": [0]},
            "datasets": [{"name": "words", **({} if rows is None else {"rows": rows})}],
            "stores": [{"store": "a", "params": params}, {"store": "b", "lane": ["sdk"]}],
            "experiments": [
                {"experiment": "search", "stores": ["a"], "search": search},
                {"experiment": "of others", "rounds": 3},
            ],
        }
    ),
    names,
    st.integers(1, 1000),
    st.integers(1, 10_000),
    st.none() | st.integers(1, 10**9),
    params,
    params,
    st.text(st.characters(exclude_categories=("Cs",)), max_size=40),
)


@given(suites)
def test_what_is_written_is_read_back(suite: Suite) -> None:
    text = commented_text(suite, EXPERIMENTS, ["Two words.", "A second paragraph."])
    assert parse_suite(text, "t.toml") == suite
    assert text.startswith("# Two words.\n#\n# A second paragraph.\n\n")


def test_each_key_is_explained_by_its_model_once() -> None:
    suite = Suite.model_validate(
        {
            "name": "t",
            "datasets": [{"name": "words"}],
            "stores": [{"store": "a", "index": "hnsw"}, {"store": "b", "index": "hnsw"}],
            "experiments": [{"experiment": "search", "min_s": 0.5, "max_s": 1.0}],
        }
    )
    text = commented_text(suite, EXPERIMENTS)
    assert text.startswith('name = "t"\n# repeats: repeats of every trial')
    assert text.count(f"# {field_texts(StoreRef)['index']}\n") == 1
    assert text.count("# min_s, max_s: whole passes over the queries") == 1
    assert f"# {Search.title}.\n[[experiments]]" in text
    assert tomllib.loads(text)["experiments"] == [
        {"experiment": "search", "min_s": 0.5, "max_s": 1.0}
    ]
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("model", [Suite, StoreRef, *EXPERIMENTS.working()[0].values()])
def test_docstrings_explain_fields_that_there_are(model: type[Suite]) -> None:
    texts = field_texts(model)
    assert texts.keys() <= model.model_fields.keys()
    if model is not StoreRef and model.model_fields:
        assert texts, "an experiment explains its parameters"
    for name, text in texts.items():
        assert name in text.partition(": ")[0].split(", ")
