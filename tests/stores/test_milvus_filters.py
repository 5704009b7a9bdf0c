"""Texts in Milvus' expressions: those of all scripts and control characters, as they are."""

from __future__ import annotations

import pytest

from vectrial.model.filters import Eq
from vectrial.stores.milvus.filters import expression


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ('it\'s "q"', '"it\'s \\"q\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("a\nb\rc\td", '"a\\nb\\rc\td"'),
        ("\0\x01\x1f", '"\0\x01\x1f"'),
        ("größe 尺寸 🦉", '"größe 尺寸 🦉"'),
    ],
)
def test_no_escape_is_used_that_the_library_does_not_know(text: str, literal: str) -> None:
    assert expression(Eq("colour", text), {"colour": "f0"}) == f"(f0 == {literal})"
