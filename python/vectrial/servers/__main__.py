"""`python -m vectrial.servers [NAME…]`: have the programs of these servers here, or of all that can
be had, so that nothing later waits for one to be fetched or built."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Sequence

import vectrial.servers
from vectrial.errors import UserError, VectrialError
from vectrial.nearest import suggestion
from vectrial.servers.base import NoProgram, Recipe
from vectrial.servers.provide import prepare


def recipes() -> dict[str, Recipe]:
    """Every server that can be started here, by its name."""
    found: dict[str, Recipe] = {}
    for module in pkgutil.iter_modules(vectrial.servers.__path__):
        if module.name != "__main__":
            content = vars(importlib.import_module(f"vectrial.servers.{module.name}"))
            found |= {r.name: r for r in content.values() if isinstance(r, Recipe)}
    return dict(sorted(found.items()))


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 where all that were named are here; of those that were not, whichever."""

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
    except VectrialError as error:
        say(str(error))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
