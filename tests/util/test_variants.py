"""Variants of a store: their names, and the variables of the environment that are theirs alone."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vectrial.model.errors import UserError
from vectrial.util import variants
from vectrial.util.variants import (
    full_name,
    run_with_variables,
    set_variables,
    store_of,
    variables_of,
)

BIN, ADDRESS = "VECTRIAL_REDIS_BIN", "VECTRIAL_REDIS_ADDRESS"
PASSWORD = "VECTRIAL_REDIS_PASSWORD"


@given(st.from_regex(variants.PATTERN, fullmatch=True))
def test_a_name_tells_its_store(variant: str) -> None:
    assert store_of(full_name("redis-search", variant)) == "redis-search"
    assert variants.suffix(variant).startswith("__")


def test_a_store_without_a_variant_has_its_own_name() -> None:
    assert full_name("redis", None) == full_name("redis", "") == "redis"
    assert store_of("redis") == "redis"


def test_a_variant_has_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BIN, "/for/all")
    monkeypatch.setenv(f"{BIN}__AFTER", "/for/after")
    monkeypatch.setenv(f"{BIN}__V8_2", "/for/v8.2")
    monkeypatch.setenv(f"{ADDRESS}__AFTER", "127.0.0.1:6379")
    assert variables_of("after") == {BIN: "/for/after", ADDRESS: "127.0.0.1:6379"}
    assert variables_of("v8.2") == {BIN: "/for/v8.2"}
    assert variables_of("") == variables_of("before") == {}
    with set_variables("after"):
        assert (os.environ[BIN], os.environ[ADDRESS]) == ("/for/after", "127.0.0.1:6379")
    assert os.environ[BIN] == "/for/all"
    assert ADDRESS not in os.environ


@pytest.mark.parametrize("ends", ["", "_FILE"])
def test_a_variants_secret_takes_the_place_of_all_others(
    monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    other = "_FILE" if not ends else ""
    monkeypatch.setenv(PASSWORD + other, "of all")
    monkeypatch.setenv(f"{PASSWORD}{ends}__AFTER", "of after")
    with set_variables("after"):
        assert os.environ[PASSWORD + ends] == "of after"
        assert PASSWORD + other not in os.environ
    assert os.environ[PASSWORD + other] == "of all"
    assert PASSWORD + ends not in os.environ


def test_a_variants_own_program_is_not_kept_back_by_an_address_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ADDRESS, "127.0.0.1:6379")
    monkeypatch.setenv("VECTRIAL_REDIS_PROVIDER", "docker")
    monkeypatch.setenv(f"{BIN}__AFTER", "/for/after")
    with set_variables("after"):
        assert os.environ[BIN] == "/for/after"
        assert ADDRESS not in os.environ
        assert "VECTRIAL_REDIS_PROVIDER" not in os.environ
    assert os.environ[ADDRESS] == "127.0.0.1:6379"


def test_what_is_wrong_with_a_variable_names_the_variants_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{BIN}__AFTER", "/nowhere")
    with pytest.raises(UserError, match="no program") as caught, set_variables("after"):
        raise UserError("no program", where=BIN)
    assert str(caught.value).startswith(f"{BIN}__AFTER: ")


def test_steps_have_their_variables_and_others_have_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{BIN}__A", "/a")
    monkeypatch.setenv(f"{BIN}__B", "/b")
    closed = []

    def steps() -> Generator[str]:
        try:
            yield os.environ[BIN]
            yield os.environ[BIN]
        finally:
            closed.append(os.environ[BIN])

    a, b = run_with_variables("a", steps()), run_with_variables("b", steps())
    assert [next(a), next(b), next(b)] == ["/a", "/b", "/b"]
    assert BIN not in os.environ
    assert next(b, "ended") == "ended"
    a.close()
    assert closed == ["/b", "/a"]
    assert BIN not in os.environ
