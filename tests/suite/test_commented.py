"""Suite files that are written with a comment on each key, and read back as they were."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.experiments.registry import EXPERIMENTS
from vectrial.experiments.search import Search
from vectrial.suite.commented import commented, field_texts
from vectrial.suite.model import StoreRef, Suite, parse_suite

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
    text = commented(suite, EXPERIMENTS, ["Two words.", "A second paragraph."])
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
    text = commented(suite, EXPERIMENTS)
    assert text.startswith('name = "t"\n# repeats: of every trial')
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
