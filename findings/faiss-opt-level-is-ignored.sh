#!/usr/bin/env bash
# Expected: FAISS_OPT_LEVEL=generic makes the wheel faiss-cpu import a build without SIMD, as the text of its
# loader says, so that SIMD can be compared on and off.
# Happens: since the wheels have one build that chooses its instructions at run time, the variable changes
# nothing, without a warning. FAISS_SIMD_LEVEL=NONE turns SIMD off, in a process that starts with it;
# `get_compile_options()` follows what the machine has, and no longer which build was imported.
# Versions: faiss-cpu 1.13.2 (the variable works) and 1.15.1 (it does not), Python 3.11, x86-64. Seen 2026-11-28.
# Source: two releases of FAISS compared on one graph, the later one 10 % slower.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for release in 1.13.2 1.15.1; do
    python3 -m venv "venv-$release"
    "venv-$release/bin/pip" install --quiet "faiss-cpu==$release" numpy==2.2.6
done
cat > probe.py <<'PYTHON'
import os

import faiss

said = faiss.get_compile_options().split()
asked = {name: os.environ[name] for name in ("FAISS_OPT_LEVEL", "FAISS_SIMD_LEVEL") if name in os.environ}
print(faiss.__version__, asked or "nothing asked", "SIMD:", any("AVX" in word for word in said))
PYTHON
for release in 1.13.2 1.15.1; do
    "venv-$release/bin/pip" list 2>/dev/null | grep -E "^faiss" >&2
    "venv-$release/bin/python" probe.py
    FAISS_OPT_LEVEL=generic "venv-$release/bin/python" probe.py
    FAISS_SIMD_LEVEL=NONE "venv-$release/bin/python" probe.py
done | tee seen
diff seen - <<'SEEN'
1.13.2 nothing asked SIMD: True
1.13.2 {'FAISS_OPT_LEVEL': 'generic'} SIMD: False
1.13.2 {'FAISS_SIMD_LEVEL': 'NONE'} SIMD: True
1.15.1 nothing asked SIMD: True
1.15.1 {'FAISS_OPT_LEVEL': 'generic'} SIMD: True
1.15.1 {'FAISS_SIMD_LEVEL': 'NONE'} SIMD: False
SEEN
