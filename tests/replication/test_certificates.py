"""Certificates of connections between hosts, as the settings name them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from common.setting_conversion import SettingError
from coordinator.replication.placement.tls_between_hosts import tls_contexts
from coordinator.settings import Settings

NAMES = ("rpc_tls_cert", "rpc_tls_key", "rpc_tls_ca")


@pytest.mark.parametrize("missing", NAMES)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, missing: str) -> None:
    files: dict[str, Any] = {name: str(tmp_path / name) for name in NAMES}
    for name in NAMES:
        if name != missing:
            Path(files[name]).touch()
    with pytest.raises(SettingError) as caught:
        tls_contexts(replace(Settings(), **files))
    assert str(caught.value) == (
        f"{missing}: cannot read {files[missing]}: No such file or directory"
    )


def test_a_file_that_is_no_certificate_is_refused(tmp_path: Path) -> None:
    files: dict[str, Any] = {name: str(tmp_path / name) for name in NAMES}
    for path in files.values():
        Path(path).write_text("no certificate")
    with pytest.raises(SettingError, match="rpc_tls_cert, rpc_tls_key or rpc_tls_ca cannot be use"):
        tls_contexts(replace(Settings(), **files))
