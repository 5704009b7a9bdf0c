"""The suites that come with Vectrial and its plug-ins, by name.

Their files are in `suites/`, at the root of a checkout or in the installed package, so `vectrial
run demo` works with both. A package of plug-ins has its own suites in a folder of the same name
(see `plugins.packages`).
"""

from __future__ import annotations

from pathlib import Path

from vectrial.model.errors import UserError
from vectrial.util import plugins
from vectrial.util.suggest import suggestion

_FOLDER = Path(__file__).resolve().parents[1] / "suites"


def files() -> dict[str, Path]:
    """The files of all suites that come with Vectrial or a package of plug-ins, by name, sorted.
    Vectrial's own take precedence over others of the same name."""
    folders = (_FOLDER, *(package / "suites" for package in plugins.packages().values()))
    found = {path.stem: path for folder in reversed(folders) for path in folder.glob("*.toml")}
    return dict(sorted(found.items()))


def names() -> tuple[str, ...]:
    """The names of all suites that come with Vectrial or a package of plug-ins, sorted."""
    return tuple(files())


def suite_file(suite: Path) -> Path:
    """The file of a suite: `suite` itself, or the file of the shipped suite that it names.

    A file in the current folder takes precedence over a shipped suite of the same name. A path with
    a folder or an ending is never a name; it is returned whether the file exists or not.

    Raises:
        UserError: it is a name, and neither a file nor a shipped suite has it.
    """
    if suite.exists() and not suite.is_dir():
        return suite
    known = files()
    if suite.suffix == ".toml" and suite.stem in known:
        raise UserError(
            "there is no such file",
            where=str(suite),
            remedy=f"the suite that comes with Vectrial has a name: vectrial run {suite.stem}",
        )
    if suite.suffix or suite.name != str(suite):
        return suite
    if suite.name not in known:
        nearest = suggestion(suite.name, known)
        every = f"these come with Vectrial: {', '.join(known)}"
        raise UserError(
            f"there is no suite '{suite}', neither a file nor one that comes with Vectrial",
            remedy=f"{nearest} {every}" if nearest.endswith("?") else every,
        )
    return known[suite.name]
