"""The environment variables that processes started by Vectrial get.

They get the variables listed here, not all that Vectrial has: a server, or the client of one store,
does not need the passwords of other stores or the token of `vectrial serve`.
VECTRIAL_PASS=NAME,NAME names further variables for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

#: A comma-separated list of further variables to pass on.
PASS = "VECTRIAL_PASS"
#: The variable that holds the token of `vectrial serve`.
SERVE_TOKEN = "VECTRIAL_SERVE_TOKEN"

_EVERYWHERE = frozenset(
    """PATH HOME USER LOGNAME LANG LANGUAGE TZ TZDIR TMPDIR LD_LIBRARY_PATH LD_PRELOAD JAVA_HOME
    SSL_CERT_FILE SSL_CERT_DIR GOMAXPROCS GOGC GOMEMLIMIT GODEBUG""".split()  # noqa: SIM905
)
_EVERYWHERE_PREFIXES = ("LC_", "OMP_", "OPENBLAS_", "MKL_", "MALLOC_", "KMP_", "GOTO_")
_MEASURING = _EVERYWHERE | frozenset(
    """VECTRIAL_HOME XDG_CACHE_HOME XDG_RUNTIME_DIR SHELL TERM VIRTUAL_ENV REQUESTS_CA_BUNDLE
    CURL_CA_BUNDLE BLIS_NUM_THREADS NUMEXPR_NUM_THREADS VECLIB_MAXIMUM_THREADS RAYON_NUM_THREADS
    TOKIO_WORKER_THREADS GLIBC_TUNABLES CUDA_VISIBLE_DEVICES PYDANTIC_DISABLE_PLUGINS""".split()  # noqa: SIM905
)
_MEASURING_PREFIXES = (
    *_EVERYWHERE_PREFIXES,
    *("PYTHON", "COV_CORE_", "COVERAGE_", "RUST_", "LLVM_PROFILE_", "ASAN_", "LSAN_", "UBSAN_"),
    *("LANCE_", "LANCEDB_LOG", "DUCKDB_", "GRPC_"),
)
_ENGINE = _EVERYWHERE | {"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SSH_AUTH_SOCK"}
_ENGINE_PREFIXES = (*_EVERYWHERE_PREFIXES, "DOCKER_", "CONTAINER_")


def for_server() -> dict[str, str]:
    """Variables for a server, or what starts or ends one; its recipe adds those it declares."""
    return _only(_EVERYWHERE, _EVERYWHERE_PREFIXES)


def for_engine() -> dict[str, str]:
    """Variables for a container engine's command: where its engine and its settings are."""
    return _only(_ENGINE, _ENGINE_PREFIXES)


def for_measuring(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for a measuring process, from `environment` or our own: those of Python and of
    numeric libraries. Addresses and secrets are left out: they come with the job."""
    return _only(_MEASURING, _MEASURING_PREFIXES, environment)


def for_measuring_with_server(environment: Mapping[str, str], server: str | None) -> dict[str, str]:
    """Variables for a measuring process that starts its store's server itself: `for_measuring` and
    that server's, secrets included. server: its recipe's name, if there is one."""
    if server is None:
        return _only(_MEASURING, _MEASURING_PREFIXES, environment)
    own = f"VECTRIAL_{server}_".upper().replace("-", "_")
    javas = {"ES_JAVA_HOME", "OPENSEARCH_JAVA_HOME", "VECTRIAL_DOCKER"}
    prefixes = (*_MEASURING_PREFIXES, *_ENGINE_PREFIXES, own)
    return _only(_MEASURING | _ENGINE | javas, prefixes, environment)


def for_run() -> dict[str, str]:
    """For a `vectrial run` that `vectrial serve` starts: all variables but the pages' token."""
    return {name: value for name, value in os.environ.items() if name != SERVE_TOKEN}


def _only(
    names: frozenset[str], prefixes: tuple[str, ...], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    extra = {name.strip() for name in os.environ.get(PASS, "").split(",")}
    return {
        name: value
        for name, value in (os.environ if environment is None else environment).items()
        if name in names or name in extra or name.startswith(prefixes)
    }
