"""A suite as a file that a person edits: TOML with a comment on each key."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tomli_w
from pydantic import BaseModel

from vectrial.suite.model import DatasetRef, ExperimentRef, StoreRef, Suite

_WIDTH = 88
#: Keys that are written even where they have their default, since they are the first to be edited.
_ALWAYS = ("name", "description", "repeats", "k")


def commented_text(
    suite: Suite, experiments: Mapping[str, type[BaseModel]], head: Sequence[str] = ()
) -> str:
    """The text of a suite file; `parse_suite` reads the same suite from it.

    Args:
        experiments: the model of each experiment by name: its docstring explains its parameters.
        head: paragraphs of the comment at the top.
    """
    plain = suite.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    sections = {key: plain.pop(key) for key in ("datasets", "stores", "experiments")}
    first = {key: getattr(suite, key) for key in _ALWAYS if getattr(suite, key) != ""}
    lines = [line for paragraph in head for line in [*_comment(paragraph), "#"]][:-1]
    lines += ["", *_keys({**first, **plain}, Suite, set())]
    for name, model in (("datasets", DatasetRef), ("stores", StoreRef)):
        said: set[str] = set()
        for values in sections[name]:
            lines += ["", f"[[{name}]]", *_keys(values, model, said)]
    for values in sections["experiments"]:
        kind = experiments.get(values["experiment"])
        title = getattr(kind, "title", "")
        lines += ["", *(_comment(f"{title}.") if title else ()), "[[experiments]]"]
        lines += _keys(values, kind or ExperimentRef, set())
    return "\n".join(lines).lstrip("\n") + "\n"


def _keys(values: Mapping[str, Any], model: type[BaseModel], written: set[str]) -> Iterator[str]:
    """A line for each key, below its comment. written: the comments written already, extended
    here."""
    texts = field_texts(model)
    for key, value in values.items():
        if key in texts and texts[key] not in written:
            written.add(texts[key])
            yield from _comment(texts[key])
        yield f"{_key(key)} = {_value(value)}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )


def _value(value: Any) -> str:
    """A value in one line."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return tomli_w.dumps({"k": value}).removeprefix("k = ").removesuffix("\n")


def _key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """The entry of each field in the docstring of a model: `field: text`, or for several fields
    `field, field: text`."""
    names = "|".join(sorted(map(re.escape, model.model_fields), key=len, reverse=True))
    if not names:
        return {}
    entry = re.compile(rf"(?:^|(?<=[.)] ))((?:{names})(?:, (?:{names}))*): ")
    found: dict[str, str] = {}
    for paragraph in re.split(r"\n\s*\n", inspect.getdoc(model) or ""):
        # A line at the margin begins an entry, or a sentence of its own; what is indented goes on.
        text = ""
        for line in paragraph.splitlines():
            text += f" {line.strip()}" if line[:1].isspace() or not text else f"\n{line}"
        for line in text.splitlines():
            parts = entry.split(line.strip())
            for keys, said in zip(parts[1::2], parts[2::2], strict=True):
                entry_text = f"{keys}: {said.strip()}"
                for key in keys.split(", "):
                    found.setdefault(key, entry_text)
    return found
