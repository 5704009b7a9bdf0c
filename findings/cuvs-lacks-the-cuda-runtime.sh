#!/usr/bin/env bash
# Expected: `pip install cuvs-cu13` installs what `import cuvs.neighbors.cagra` needs, a GPU aside.
# Happens: on a machine without CUDA the import fails: "libcuvs_c.so: cannot open shared object file",
# though that file is there. cuRAND's library needs libcudart.so.13, which no wheel that cuVS
# depends on brings, and cuVS' loader swallows the error that says so. With the wheel
# nvidia-cuda-runtime beside it the import works, also without a GPU.
# Versions: cuvs-cu13 26.10.0, nvidia-cuda-runtime 13.5.37, Python 3.11, x86_64. Seen 2026-11-27.
# Source: seen when the environment of a store was made; installs 2.5 GB.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
pip() { "$folder/venv/bin/pip" "$@"; }
attempt() { "$folder/venv/bin/python" -c 'import cuvs.neighbors.cagra; print("imported")' 2>&1 | tail -1; }
pip install --quiet --no-cache-dir cuvs-cu13==26.10.0
pip list 2>/dev/null | grep -E "^(cuvs|libcuvs|nvidia-curand|nvidia-cuda-runtime)" || true
file=$(find "$folder/venv" -name libcuvs_c.so)
echo "alone: $(attempt) | the file is there: ${file:+yes}"
pip install --quiet --no-cache-dir nvidia-cuda-runtime==13.5.37
echo "with nvidia-cuda-runtime: $(attempt)"
[[ -n $file && $(attempt) == imported ]]
pip uninstall --quiet --yes nvidia-cuda-runtime
[[ $(attempt) == *libcuvs_c.so*"cannot open shared object file"* ]]
