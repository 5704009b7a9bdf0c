# mypy: implicit-reexport
# ruff: noqa: F401
"""Everything needed to write a store, under one name:

    from vectrial.stores import common as vt

The words of a store (`vt.Schema`, `vt.Capabilities`, …) are those of `vectrial.model`.
"""

from vectrial.model.capabilities import (
    ALL_OPERATORS,
    BulkImport,
    Capabilities,
    Durability,
    Environment,
    Hybrid,
    Index,
    IndexKind,
    NoParams,
    Params,
    Returning,
    Spreading,
)
from vectrial.model.errors import (
    NotInstalled,
    PartialFailure,
    StoreError,
    Unsupported,
    UserError,
)
from vectrial.model.existing import (
    Attaching,
    Description,
    Existing,
    IntegerKeys,
    Keys,
    are_integers,
)
from vectrial.model.filters import Filter, Value, renamed
from vectrial.model.fusion import Blend, Fusion
from vectrial.model.metric import Metric, ScoreKind
from vectrial.model.refusals import refuse_operation
from vectrial.model.schema import ARROW_TYPES, Field, FieldType, Schema
from vectrial.model.store import (
    Address,
    Footprint,
    Hits,
    HybridSearcher,
    LoadTarget,
    NativeRows,
    NativeSearch,
    Searcher,
    Store,
)
from vectrial.stores.common.arrow import (
    batch_of,
    batch_of_columns,
    batch_of_rows,
    check,
    columns_of,
    get_pages,
    id_pages,
    ids_of,
    row_values,
    slices,
    table_of,
    vectors_of,
)
from vectrial.stores.common.files import atomic_replace, empty_folder
from vectrial.stores.common.library import LibraryIndex, RowsStore
from vectrial.stores.common.rows import Rows
from vectrial.stores.common.server import SearchRequest, ServerStore, collection_name, wait_until
from vectrial.stores.common.sql import SQL_TYPES, condition, literal, quoted
from vectrial.stores.common.trust import trust
from vectrial.stores.common.typed import coerce_values, on_columns
