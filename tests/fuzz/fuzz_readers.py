"""Fuzz target of the readers: whatever the bytes, reading ends well or with `UserError`.

    python tests/fuzz/fuzz_readers.py [--seconds 60] [--tries N] [--seed 0]    plain mutation
    python tests/fuzz/fuzz_readers.py --atheris CORPUS_FOLDER        coverage-guided (extra fuzz)

The input's first byte picks the format, the rest is the file. `read_all` is the one entry
function of both modes and of the test that runs with the suite, so many tries whatever the
machine's speed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

if sys.argv[1:2] == ["--atheris"]:
    import atheris

    with atheris.instrument_imports(include=["vectrial.datasets"]):
        import vectrial.datasets.readers  # noqa: F401

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
import reader_layouts as layouts

from vectrial.datasets.readers import ReaderOptions, open_source
from vectrial.model.errors import UserError

#: By index: the format that an input's first byte picks.
NAMES = [*layouts.FILES, "a.tgz"]


def read_all(data: bytes, folder: Path) -> bool:
    """Read everything of one file; whether it was readable.

    Raises:
        Exception: anything that is no `UserError` is a bug of the reader.
    """
    if not data:
        return False
    file = folder / NAMES[data[0] % len(NAMES)]
    file.write_bytes(data[1:])
    try:
        with open_source(file, ReaderOptions(conditions=True)) as source:
            for block in source.blocks(5):
                if not np.isfinite(block.vectors).all():
                    raise AssertionError("a value that is not finite came through")
                if block.metadata is not None:
                    block.metadata.validate(full=True)
    except UserError:
        return False
    return True


def seeds(folder: Path) -> list[bytes]:
    """A small good file of every format."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 100, (12, 4))
    out = []
    for i, (name, write) in enumerate(layouts.FILES.items()):
        out.append(bytes([i]) + write(folder / f"seed-{name}", x).read_bytes())
    archive = layouts.tgz(folder / "seed.tgz", layouts.qdrant(folder / "set", x, x[:4]))
    return [*out, bytes([len(NAMES) - 1]) + archive.read_bytes()]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """`data` with some bytes changed, cut, doubled or set to values that break parsers."""
    raw = bytearray(data[1:])
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(raw)) if raw else 0
        # Headers are where the claims are: half of all changes go to the first 64 bytes.
        at = min(at, rng.randrange(64)) if rng.random() < 0.5 else at
        match rng.randrange(6):
            case 0:
                raw[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del raw[at:]
            case 2:
                value = rng.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x10000))
                raw[at : at + 4] = value.to_bytes(4, "little")
            case 3:
                raw[at:at] = raw[at : at + rng.randrange(1, 40)]
            case 4:
                del raw[at : at + rng.randrange(1, 16)]
            case _:
                if raw:
                    raw[at % len(raw)] ^= 1 << rng.randrange(8)
    return data[:1] + bytes(raw)


def fuzz(seconds: float, tries: int, seed: int, folder: Path) -> tuple[int, int]:
    """Read at most so many mutated files for at most that long; how many were tried, and how many
    could be read.

    A failing input stays as `failing-input` in `folder`.
    """
    rng, good, tried, readable = random.Random(seed), seeds(folder), 0, 0
    end = time.monotonic() + seconds
    while tried < tries and time.monotonic() < end:
        data = mutate(good[tried % len(good)], rng)
        # Written first: a crash of a C library leaves no exception to catch.
        (folder / "failing-input").write_bytes(data)
        readable += read_all(data, folder)
        tried += 1
    (folder / "failing-input").unlink(missing_ok=True)
    return tried, readable


def _atheris(arguments: list[str]) -> None:
    folder = Path(tempfile.mkdtemp())
    corpus = next((Path(a) for a in arguments if not a.startswith("-")), folder / "corpus")
    corpus.mkdir(parents=True, exist_ok=True)
    for i, data in enumerate(seeds(folder)):
        (corpus / f"seed-{i}").write_bytes(data)

    def one(data: bytes) -> Any:
        read_all(data, folder)

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


def main(arguments: list[str]) -> None:
    """See the module's text."""
    if arguments[:1] == ["--atheris"]:
        _atheris(arguments[1:])
        return
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    folder = Path(tempfile.mkdtemp())
    print(f"inputs lie in {folder}")
    seconds, seed = float(given.get("--seconds", 60)), int(given.get("--seed", 0))
    tries = int(given.get("--tries", sys.maxsize))
    tried, readable = fuzz(seconds, tries, seed, folder)
    print(f"{tried} files read, {readable} of them readable, no error but the intended ones")


if __name__ == "__main__":
    main(sys.argv[1:])
