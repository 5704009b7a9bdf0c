"""Hardware is seen by its device files."""

from __future__ import annotations

from pathlib import Path

import pytest

from vectrial.model.errors import UserError
from vectrial.util import hardware


def test_a_gpu_is_seen_by_its_device_file(tmp_path: Path) -> None:
    why = f"needs an NVIDIA GPU: no {tmp_path}/nvidia0 here"
    assert hardware.missing_hardware(["nvidia-gpu"], tmp_path) == why
    (tmp_path / "nvidiactl").touch()  # the driver without a GPU
    assert hardware.missing_hardware(["nvidia-gpu"], tmp_path) == why
    (tmp_path / "nvidia1").touch()  # a container may be given any of several
    assert hardware.missing_hardware(["nvidia-gpu"], tmp_path) == ""


def test_nothing_needed_lacks_nothing(tmp_path: Path) -> None:
    assert hardware.missing_hardware([], tmp_path) == ""


def test_an_unknown_name_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no hardware 'nvidia-gup'.*did you mean 'nvidia-gpu'"):
        hardware.missing_hardware(["nvidia-gup"], tmp_path)
