"""The data of a job, which the measuring process loads before any code of a store."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from vectrial.datasets import library, truth
from vectrial.model.dataset import Dataset
from vectrial.stores.attached import without_own_ids
from vectrial.util import hiding, paths


@dataclass(frozen=True)
class JobData:
    """The rows and queries of a job.

    name: name of the dataset. own_ids: whether the column of the user's own ids stays; False for an
        existing collection. client: True if the store has a server, whose clients are processes
        that load rows themselves.
    """

    name: str
    rows: int
    queries: int | None
    metadata: bool
    own_ids: bool
    client: bool

    def load(self) -> Dataset:
        """The dataset, its arrays memory-mapped."""
        found = library.load(self.name)
        cut = library.subset(found, self.rows, self.queries, metadata=self.metadata)
        return cut if self.own_ids else without_own_ids(cut)

    def hide(self) -> None:
        """Hide what could answer queries in place of the store: the truths, and all datasets where
        no other process loads rows. Whoever may not do so goes on without; a run's environment says
        whether it could."""
        folders = [truth.FilesOnDisk().folder if self.client else paths.datasets_dir()]
        with suppress(OSError):
            hiding.hide(folders)
            # A client reads what a server under another user has used.
            rights = () if self.client else (hiding.SYS_PTRACE,)
            hiding.drop_rights(hiding.SYS_ADMIN, *rights)
