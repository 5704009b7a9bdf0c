"""Chromium over the DevTools protocol on a pipe: no dependency, no port."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip

#: Keys that do something of themselves: what the browser knows them by, and what they type.
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Space": (32, " ")}


def _loaded(event: dict[str, Any]) -> str | None:
    """What has loaded, where an event says that something has."""
    if event["method"] != "Page.lifecycleEvent" or event["params"]["name"] != "load":
        return None
    return str(event["params"]["loaderId"])


class Browser:
    """One page; every event that it sent is kept in `events`."""

    def __init__(self, read: int, write: int) -> None:
        self._read, self._write = read, write
        self._buffer = b""
        self._id = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def attach(self) -> None:
        """Open an empty page and listen to all it says."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method and wait for its answer."""
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            got = self._next(60)
            if got.get("id") == self._id:
                assert "error" not in got, got
                result: dict[str, Any] = got["result"]
                return result

    def _next(self, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise ConnectionError("the browser ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url: str, width: int, height: int, dark: bool) -> None:
        """Load a page at a size in CSS pixels and a colour scheme; ends when it has loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="screen", features=[scheme])
        self.events.clear()
        # A page that was left for this one may still tell that it has loaded.
        own = self.call("Page.navigate", url=url)["loaderId"]
        self.wait(lambda: any(_loaded(event) == own for event in self.events))

    def wait(self, done: Callable[[], bool], timeout_s: float = 60) -> None:
        """Take in events until `done`."""
        deadline = time.monotonic() + timeout_s
        while not done():
            self._next(deadline - time.monotonic())

    def value(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        got = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def wait_for(self, script: str, timeout_s: float = 60) -> None:
        """Until a JavaScript expression is true, on this page or on one that takes its place."""
        deadline = time.monotonic() + timeout_s
        while not self._holds(script):
            assert time.monotonic() < deadline, f"not so in {timeout_s} s: {script}"
            time.sleep(0.02)

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.value(script))
        except AssertionError:
            return False  # the page is being left, or is not there yet

    def key(self, name: str) -> None:
        """Press a key."""
        code, typed = _KEYS.get(name, (0, ""))
        held: dict[str, Any] = {"key": typed if typed == " " else name, "code": name}
        held |= {"windowsVirtualKeyCode": code} if code else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=typed, **held)
        self.call("Input.dispatchKeyEvent", type="keyUp", **held)

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """What is seen, or the whole page, as PNG."""
        got = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(got["data"]))

    def complaints(self) -> list[str]:
        """Errors of the console, of scripts and of the content security policy."""
        found = []
        for event in self.events:
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(str(params["args"]))
        return found

    def requests(self) -> list[str]:
        """The addresses that were asked for."""
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A Chromium with a profile folder of its own, ended with the block."""
    assert CHROMIUM is not None
    to_child, from_us = os.pipe()
    from_child, to_us = os.pipe()
    # The protocol is spoken on the file descriptors 3 and 4.
    command = f'exec "$0" "$@" 3<&{to_child} 4>&{to_us}'
    process = subprocess.Popen(
        ["bash", "-c", command, CHROMIUM, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(to_child, to_us),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_child)
    os.close(to_us)
    try:
        page = Browser(from_child, from_us)
        page.attach()
        yield page
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(from_us)
        os.close(from_child)
