"""`python -m vectrial.stores [NAME…]`: fetch or build the programs of these servers, or of all that
can be had here, so that nothing waits for them later."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from vectrial.model.errors import UserError, VectrialError
from vectrial.servers.base import NoProgram, Recipe
from vectrial.servers.minio import MINIO
from vectrial.servers.provide import prepare, recipe_of
from vectrial.stores import registry
from vectrial.util.suggest import suggestion


def recipes() -> dict[str, Recipe]:
    """The servers of all registered stores, and the object storage that some of them use, by
    name."""
    found = [recipe_of(store) for store in registry.STORES.working()[0].values()]
    return {r.name: r for r in sorted(filter(None, (*found, MINIO)), key=lambda r: r.name)}


def main(arguments: Sequence[str]) -> int:
    """Exit code: 0 if every server named in the arguments is available; others may be missing."""

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    known = recipes()
    try:
        for name in arguments:
            if name not in known:
                raise UserError(
                    f"there is no server '{name}'", remedy=suggestion(name, list(known))
                )
        for name in arguments or known:
            try:
                choice = prepare(known[name], say)
                say(f"{name}: here, by provider '{choice.provider}'")
            except NoProgram as error:
                if arguments:
                    raise
                say(f"{name}: cannot be had: {error}")
                continue
            try:
                prepare(known[name], say, nodes=2)
            except NoProgram as error:
                say(f"{name}: clusters of it cannot be had: {error}")
    except VectrialError as error:
        say(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
