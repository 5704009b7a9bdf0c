"""Secrets are hidden as clients write them, on the way into whatever a run keeps."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from vectrial.model.errors import UserError
from vectrial.model.phase import Phase
from vectrial.model.trial import CheckResult, TrialRow
from vectrial.results.writer import TrialRecord
from vectrial.run.redact import Secrecy, short_secrets
from vectrial.servers.provide import external_address, secrets_of
from vectrial.stores.milvus.server import MILVUS
from vectrial.stores.redis.server import REDIS
from vectrial.util.redaction import HIDDEN, Log, Redaction, environment_redaction

SECRET = "p\"w\\d-'SECR/ET <é>&77+"
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": lambda s: json.dumps({"password": s}),
    "json of utf-8": lambda s: json.dumps({"password": s}, ensure_ascii=False),
    "repr": lambda s: repr({"password": s}),
    "url": lambda s: f"redis://default:{quote(s, safe='')}@there",
    "header": lambda s: "Basic " + base64.b64encode(f"admin:{s}".encode()).decode(),
    "token": lambda s: "Bearer " + base64.b64encode(s.encode()).decode(),
}
#: What is left of the secret where a form of it is not hidden.
TRACES = ("SECR", "U0VDU", "NFQ1", "TRUNS")


def leaks(text: str) -> bool:
    """Whether a part of the secret can be seen."""
    return any(trace in text for trace in TRACES)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_is_hidden_everywhere(encoding: str, tmp_path: Path) -> None:
    said = f"before {ENCODINGS[encoding](SECRET)} after"
    assert leaks(said), "what is looked for is there"
    secrecy = Secrecy([{"user": "admin", "password": SECRET}, {}, {"api_key": ""}])
    assert not leaks(secrecy.text(said))
    phase = Phase("search", 0, 1, reason=said, errors=[(said, 1, [said])])
    phase.missing = {"qps": said}
    row = TrialRow("k", "s", "sdk", "d", 1, 1, "l2", "e", "flat", {}, {}, 1, 1)
    gate = [CheckResult("check", False, said, "", "everything", True)]
    record = TrialRecord(
        row, "failed", said, phases=[phase], notes=[said], gate=gate, server={"why": [said]}
    )
    assert not leaks(repr(secrecy.record(record)))
    log = Log(tmp_path / "log", secrecy)
    with log.opened() as file:
        for byte in f"first\n{said}\nlast".encode():
            file.write(bytes([byte]))
    log.settle(30)
    kept = (tmp_path / "log").read_text()
    assert not leaks(kept)
    assert kept.startswith("first\nbefore ")
    assert kept.endswith(" after\nlast")


def test_a_log_keeps_everything_else_as_it_is(tmp_path: Path) -> None:
    """Bytes that are no text, lines without an end, and one that is longer than any buffer."""
    secret = "hush-hush-hush"
    content = b"\xff\x00\x1b\r" + b"x" * 70_000 + secret.encode() + b"y" * 90_000 + b"\n\nend"
    log = Log(tmp_path / "log", Redaction([{"password": secret}]))
    with log.opened() as file:
        for start in range(0, len(content), 1000):
            os.write(file.fileno(), content[start : start + 1000])
    log.settle(30)
    expected = content.replace(secret.encode(), HIDDEN.encode())
    assert (tmp_path / "log").read_bytes() == expected


def test_a_full_disk_costs_the_log_and_not_the_program() -> None:
    """More than what a pipe holds: somebody must read it."""
    log = Log(Path("/dev/full"), Redaction([{"password": "hush-hush-hush"}]))
    with log.opened() as file:
        for _ in range(300):
            os.write(file.fileno(), b"a line\n" * 2000)
    log.settle(30)


def test_without_secrets_a_program_writes_to_its_log_itself(tmp_path: Path) -> None:
    with Log(tmp_path / "log", Redaction([])).opened() as file:
        assert os.fstat(file.fileno()).st_ino == (tmp_path / "log").stat().st_ino


@pytest.mark.parametrize(
    ("secret", "said", "shown"),
    [
        ("1", "recall 1.0 ok, 11 rows", "recall 1.0 ok, 11 rows"),
        ("1", "password=1 of 11", f"password={HIDDEN} of 11"),
        ("1", '{"password": "1", "n": 1}', f'{{"password": "{HIDDEN}", "n": 1}}'),
        ("abc", "redis://x:abc@there/abc", f"redis://x:{HIDDEN}@there/abc"),
        ("123456", "1234567 rows, 123456", f"1234567 rows, {HIDDEN}"),
    ],
)
def test_a_short_secret_blots_nothing_else_out(secret: str, said: str, shown: str) -> None:
    assert Redaction([{"password": secret}]).text(said) == shown


def test_a_short_secret_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECTRIAL_REDIS_PASSWORD", "abc")
    monkeypatch.setenv("VECTRIAL_QDRANT_API_KEY", "long-enough")
    (said,) = short_secrets()
    assert said.startswith("VECTRIAL_REDIS_PASSWORD: a secret of 3 characters")
    assert "abc" not in said


def test_secrets_of_any_server_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VECTRIAL_REDIS_PASSWORD", "hush-redis")
    (tmp_path / "key").write_text("hush-qdrant\n")
    monkeypatch.setenv("VECTRIAL_QDRANT_API_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("VECTRIAL_SERVE_TOKEN", "hush-token")
    monkeypatch.setenv("VECTRIAL_MILVUS_PASSWORD_FILE", str(tmp_path / "none"))
    said = environment_redaction(["hush-made"]).text("hush-redis hush-qdrant hush-token hush-made")
    assert said == " ".join([HIDDEN] * 4)


@pytest.mark.parametrize(
    "address", ["redis://user:hunter2pass@127.0.0.1:6379", "user:hunter2pass@127.0.0.1:redis=6379",
                "redis://hunter2pass"],
)  # fmt: skip
def test_an_address_with_a_password_is_not_repeated(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VECTRIAL_REDIS_ADDRESS", address)
    with pytest.raises(UserError) as told:
        external_address(REDIS)
    assert "hunter2" not in str(told.value)
    assert "VECTRIAL_REDIS_ADDRESS: " in str(told.value)
    assert "VECTRIAL_REDIS_PASSWORD_FILE" in str(told.value)
    assert told.value.exit_code == 2


def test_a_file_that_is_no_text_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("VECTRIAL_MILVUS_TOKEN_FILE", str(tmp_path / "key"))
    with pytest.raises(UserError, match=r"VECTRIAL_MILVUS_TOKEN_FILE: .* no text in UTF-8"):
        secrets_of(MILVUS)
