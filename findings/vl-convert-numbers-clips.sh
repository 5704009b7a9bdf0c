#!/usr/bin/env bash
# Expected: the same Vega-Lite chart, converted twice by vl-convert in one process, is the same SVG.
# Happens: ids of clips ("clip1") are numbered over all charts of the process, so that the second text
# differs from the first, and a figure kept in a repository depends on what was drawn before it. The
# numbers do keep clips apart where several SVGs stand in one page: renumber those that stand alone.
# Versions: vl-convert-python 1.9.0.post1, Python 3.11. Seen 2026-11-28.
# Source: committed figures that changed though nothing in them had.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet vl-convert-python==1.9.0.post1
cd "$folder" && cat > probe.py <<'PYTHON'
import json
import re

import vl_convert

chart = json.dumps({
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"values": [{"x": 1, "y": 2}, {"x": 2, "y": 3}]},
    "mark": {"type": "bar", "clip": True},
    "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
})
first, second = (vl_convert.vegalite_to_svg(chart) for _ in range(2))
renumbered = [re.sub(r"\bclip\d+\b", "clip", text) for text in (first, second)]
print("the same text:", first == second)
print("the same text but for the numbers of clips:", renumbered[0] == renumbered[1])
for text in (first, second):
    print(*sorted(set(re.findall(r"\bclip\d+\b", text))))
PYTHON
venv/bin/pip list 2>/dev/null | grep -E "^vl-convert-python "
venv/bin/python probe.py | tee seen
diff seen - <<'SEEN'
the same text: False
the same text but for the numbers of clips: True
clip1
clip2
SEEN
