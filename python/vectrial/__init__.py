"""Vectrial, a benchmark of vector databases.

The names of `__all__` are the Python API, documented in docs/python.md. Importing `vectrial`
imports nothing else: a name is looked up when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vectrial.api import Comparison, Run, compare, open_run, run_suite
    from vectrial.model.capabilities import Capabilities, Index, IndexKind, NoParams, Params
    from vectrial.model.errors import StoreError, Unsupported, UserError, VectrialError
    from vectrial.model.filters import Filter
    from vectrial.model.metric import Metric, ScoreKind
    from vectrial.model.schema import Field, FieldType, Schema
    from vectrial.model.store import Searcher, Store
    from vectrial.questions.bench import Bench
    from vectrial.questions.capacity import CapacityAnswer, capacity
    from vectrial.questions.finals import TuneAnswer
    from vectrial.questions.fit import FitAnswer, fit
    from vectrial.questions.quick import QuickAnswer, quick
    from vectrial.questions.tune import tune
    from vectrial.stores.common.arrow import batch_of, ids_of, table_of, vectors_of

__version__: str

#: Modules, each with the names of the API that it holds.
_MODULES = {
    "vectrial.api": "Comparison Run compare open_run run_suite",
    "vectrial.model.capabilities": "Capabilities Index IndexKind NoParams Params",
    "vectrial.model.errors": "StoreError Unsupported UserError VectrialError",
    "vectrial.model.filters": "Filter",
    "vectrial.model.metric": "Metric ScoreKind",
    "vectrial.model.schema": "Field FieldType Schema",
    "vectrial.model.store": "Searcher Store",
    "vectrial.questions.bench": "Bench",
    "vectrial.questions.capacity": "CapacityAnswer capacity",
    "vectrial.questions.finals": "TuneAnswer",
    "vectrial.questions.fit": "FitAnswer fit",
    "vectrial.questions.quick": "QuickAnswer quick",
    "vectrial.questions.tune": "tune",
    "vectrial.stores.common.arrow": "batch_of ids_of table_of vectors_of",
}

__all__ = [
    "Bench",
    "Capabilities",
    "CapacityAnswer",
    "Comparison",
    "Field",
    "FieldType",
    "Filter",
    "FitAnswer",
    "Index",
    "IndexKind",
    "Metric",
    "NoParams",
    "Params",
    "QuickAnswer",
    "Run",
    "Schema",
    "ScoreKind",
    "Searcher",
    "Store",
    "StoreError",
    "TuneAnswer",
    "Unsupported",
    "UserError",
    "VectrialError",
    "__version__",
    "batch_of",
    "capacity",
    "compare",
    "fit",
    "ids_of",
    "open_run",
    "quick",
    "run_suite",
    "table_of",
    "tune",
    "vectors_of",
]


def __getattr__(name: str) -> object:
    """A name of the API, looked up when it is first used: a command that was just started must end
    by Ctrl-C without a word, and Python's imports before it answers with a traceback."""
    if name == "__version__":
        from vectrial.util.version import version

        return version()
    for module, names in _MODULES.items():
        if name in names.split():
            from importlib import import_module

            # All names of the module at once: importing it sets `vectrial.compare` to a package.
            found = import_module(module)
            globals().update({one: getattr(found, one) for one in names.split()})
            return getattr(found, name)
    raise AttributeError(f"module 'vectrial' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
