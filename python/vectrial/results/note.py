"""The note on a run: its owner's comment, in a file of its folder.

It is a file and no part of the database, so that a run under way can have one, too.
"""

from __future__ import annotations

from pathlib import Path

from vectrial.model.errors import UserError
from vectrial.results.clean import clean
from vectrial.results.database import DATABASE
from vectrial.results.folder import is_own, replace_text
from vectrial.util.redaction import environment_redaction

NOTE = "note.txt"
#: Characters of a note.
LONGEST = 10_000


def read(folder: Path) -> str:
    """The note on the run in a folder; empty if it has none, or if a link leads out of the folder.
    Only the beginning of a longer note, which somebody else wrote."""
    path = folder / NOTE
    if not is_own(folder, path):
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        return clean(file.read(LONGEST)).strip()


def write(folder: Path, text: str) -> None:
    """Replace the note on the run in a folder; an empty text removes it. Secrets of the environment
    are left out of the note.

    Raises:
        UserError: there is no run, the text is too long, or the folder cannot be written.
    """
    text = environment_redaction().text(clean(text).strip())
    if not (folder / DATABASE).is_file():
        raise UserError(
            "there is no run here",
            where=str(folder),
            remedy="give the folder that `vectrial run` printed, or runs/latest",
        )
    if len(text) > LONGEST:
        raise UserError(
            f"the note has {len(text):,} characters", remedy=f"at most {LONGEST:,} are kept"
        )
    try:
        if text:
            replace_text(folder / NOTE, f"{text}\n")
        else:
            (folder / NOTE).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"the note cannot be written: {error.strerror}", where=str(folder / NOTE)
        ) from error


def add(folder: Path, text: str) -> None:
    """Add a paragraph to the note on a run, unless the note has it already.

    Raises:
        UserError: see `write`.
    """
    paragraphs = [one for one in read(folder).split("\n\n") if one]
    text = clean(text).strip()
    if text and text not in paragraphs:
        write(folder, "\n\n".join([*paragraphs, text]))
