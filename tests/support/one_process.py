"""Commands one after the other in one process of their own: starting one takes seconds.

Run as a program, it reads the commands from stdin, calls them, and prints how each ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from command_calls import Done, call


def calls(folder: Path, *commands: tuple[str, ...], in_process: bool = False) -> list[Done]:
    """Run `vectrial` with the words of each command in a folder, all in one new process, which
    finds on its module path what others would.

    in_process: it also measures in that process; see `in_process`.
    """
    done = subprocess.run(
        [sys.executable, __file__, *(["--in-process"] if in_process else [])],
        cwd=folder, input=json.dumps(commands), stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [Done(*one) for one in json.loads(done.stdout)]


def objects(done: Done) -> list[dict[str, Any]]:
    """The lines of a command that succeeded without a word to stderr."""
    assert (done.code, done.err) == (0, ""), done
    return [json.loads(line) for line in done.out.splitlines()]


def main() -> None:
    """Call the commands of stdin."""
    os.environ.pop("COLUMNS", None)
    if "--in-process" in sys.argv:
        from in_process import InProcess

        from vectrial.run import runner

        runner.JobRunner = InProcess  # type: ignore[assignment,misc]
    print(json.dumps([call(*words) for words in json.load(sys.stdin)]))


if __name__ == "__main__":
    main()
