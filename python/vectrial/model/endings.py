"""How a trial ends that does not end by itself: what its reason begins with."""

from __future__ import annotations

#: The server's program ended; it was alive and silent.
SERVER_ENDED = "the server ended"
SERVER_SILENT = "the server does not answer"
#: The measuring process ended, by a signal or an exit code.
PROCESS_ENDED = "the measuring process ended"
#: The trial was ended at its limit of time.
OVERDUE = "took longer than trial_timeout_s"
#: A turn was ended at its limit of time.
STUCK = "it did not end its turn within"
#: Something was used up that is the machine's, and no fault of the store.
MACHINE_LACKED = "this machine lacked"
