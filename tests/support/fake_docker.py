#!{python}
"""Stands for a container engine: does what its commands say with `tiny_server.py` for a container,
which lives in a session of its own that no client of the engine ends by dying."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STATE = Path("{state}")
LITTLE = "{little}"
arguments = sys.argv[1:]
with (STATE / "calls").open("a") as calls:
    calls.write(json.dumps(arguments) + "\n")


def option(name):
    return [arguments[i + 1] for i, one in enumerate(arguments) if one == name]


def end(name, number):
    file = STATE / name
    if not file.exists():
        sys.exit("no such container")
    for pid in json.loads(file.read_text()):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


hanging = STATE / "hangs"
if hanging.exists() and arguments[0] in hanging.read_text().split():
    time.sleep(1000)

match arguments[0]:
    case "version":
        if (STATE / "down").exists():
            sys.exit("Cannot connect to the daemon. Is it running?")
        print("1.0")
    case "image":
        if not (STATE / "pulled").exists():
            sys.exit("no such image")
        print("sha256:0123")
    case "pull":
        if (STATE / "unknown").exists():
            sys.exit("manifest unknown")
        (STATE / "pulled").write_text("")
    case "run":
        name = option("--name")[0]
        host, port, inside = option("--publish")[0].split(":")
        data = option("--volume")[0].split(":")[0]
        container = subprocess.Popen([sys.executable, LITTLE, port, data], start_new_session=True)
        (STATE / name).write_text(json.dumps([container.pid]))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        code = container.wait()
        (STATE / name).unlink(missing_ok=True)
        sys.exit(code if code >= 0 else 128 - code)
    case "inspect":
        pid = json.loads((STATE / arguments[-1]).read_text())[0]
        print(pid, (STATE / "id").read_text() if (STATE / "id").exists() else "0123abcd")
    case "stop":
        end(arguments[-1], signal.SIGTERM)
    case "kill":
        end(arguments[-1], signal.SIGKILL)
    case "rm":
        end(arguments[-1], signal.SIGKILL)
