"""The files in deploy/ work: run where possible, checked for syntax elsewhere."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from common.setting_sources import environment_name
from coordinator import settings as settings_module
from tests.service import ROOT, Service, free_port, is_running, process_tree

DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
LOG_UNIT = DEPLOY / "several-hosts" / "nats.service"
DROP_IN = DEPLOY / "several-hosts" / "data-folder.conf"


def _environment(folder: Path, port: int) -> dict[str, str]:
    """Return an environment in which `facetd` is this checkout's."""
    folder.mkdir()
    script = folder / "facetd"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m coordinator "$@"\n')
    script.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "FACETD_PORT": str(port),
    }


class _Foreign(Service):
    """A service that something else than `facetd serve` keeps running."""

    def __init__(self, data: Path, command: list[str], environment: dict[str, str]) -> None:
        super().__init__(data, 2, port=int(environment["FACETD_PORT"]), environment=environment)
        self.command = command

    def start(self, *, wait: bool = True) -> None:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**self.environment, "FACETD_DATA_DIR": str(self.data)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        if wait:
            self.wait_ready()

    def exercise(self) -> None:
        """Write, kill a shard, see it again, stop."""
        assert self.process is not None
        client = self.client(timeout=5)
        assert client.post("/films/configuration", {}).status == 200
        assert client.post("/films/items", [{"id": i} for i in range(9)]).status == 200
        client.close()
        pids = process_tree(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        assert not [pid for pid in pids if is_running(pid)]
        self.process = None
        assert "Traceback" not in self.log()


def test_honcho_runs_the_procfile(tmp_path: Path) -> None:
    pytest.importorskip("honcho", reason="honcho is not installed")
    command = [sys.executable, "-m", "honcho", "start", "-f", str(ROOT / "Procfile"), "-d", "."]
    with _Foreign(tmp_path / "data", command, _environment(tmp_path / "bin", free_port())) as all_:
        all_.exercise()


def test_supervisord_runs_its_configuration(tmp_path: Path) -> None:
    pytest.importorskip("supervisor", reason="supervisor is not installed")
    command = [
        *(sys.executable, "-m", "supervisor.supervisord"),
        *("-c", str(DEPLOY / "supervisord.conf")),
        *("-l", str(tmp_path / "supervisord.log"), "-j", str(tmp_path / "supervisord.pid")),
    ]
    with _Foreign(tmp_path / "data", command, _environment(tmp_path / "bin", free_port())) as all_:
        all_.exercise()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    # Verification wants the program to be there.
    for path in (DEPLOY / "systemd").iterdir():
        text = path.read_text().replace("/usr/local/bin/facetd", "/bin/true")
        (tmp_path / path.name).write_text(text)
    name = unit.name.replace("@.", "@0.")
    if name != unit.name:
        (tmp_path / name).write_text((tmp_path / unit.name).read_text())
    assert _complaints(tmp_path / name) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing")
def test_systemd_accepts_the_units_of_several_hosts(tmp_path: Path) -> None:
    drop_ins = tmp_path / "facetd.service.d"
    drop_ins.mkdir()
    for path, folder in (
        (DEPLOY / "systemd" / "facetd.service", tmp_path),
        (LOG_UNIT, tmp_path),
        (DROP_IN, drop_ins),
    ):
        text = path.read_text()
        for program in ("facetd", "nats-server"):
            text = text.replace(f"/usr/local/bin/{program}", "/bin/true")
        (folder / path.name).write_text(text)
    assert _complaints(tmp_path / "facetd.service", tmp_path / "nats.service") == []
    drop_in = drop_ins / DROP_IN.name
    drop_in.write_text(drop_in.read_text().replace("ExecStart=\n", ""))  # a second one is refused
    assert _complaints(tmp_path / "facetd.service")


def _complaints(*units: Path) -> list[str]:
    """Return what systemd says of some units."""
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
        check=False,
    )
    names = ("facetd", *(unit.name for unit in units))
    return [line for line in result.stderr.splitlines() if any(name in line for name in names)]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_hardened_and_name_only_settings_that_exist(unit: Path) -> None:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(unit)
    service = dict(parser["Service"])
    for name in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices"):
        assert service[name] == "yes"
    assert service["ProtectSystem"] == "strict"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ExecStart"].startswith("/usr/local/bin/facetd ")
    _check_variables(unit.read_text())


def test_the_log_runs_without_privileges() -> None:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(LOG_UNIT)
    service = dict(parser["Service"])
    assert service["CapabilityBoundingSet"] == ""
    assert service["DynamicUser"] == service["NoNewPrivileges"] == "yes"
    assert service["UMask"] == "0077"


def test_the_dockerfile_copies_what_there_is() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    joined = re.sub(r"\\\n\s*", " ", text)
    known = {
        "FROM",
        "RUN",
        "WORKDIR",
        "COPY",
        "USER",
        "ENV",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "CMD",
        "ENTRYPOINT",
    }
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= known
    for line in lines:
        words = line.split()
        if words[0] == "COPY" and not words[1].startswith("--from="):
            for source in words[1:-1]:
                assert (ROOT / source).exists(), source
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for name in wanted["find"][
        "include"
    ]:  # else the build ends well, and the command does not start
        name = name.rstrip("*")
        assert f"COPY {name} {name}" in lines, name
    assert lines[0].startswith("FROM python:3.1")
    assert "USER facetd" in lines
    _check_variables(text)


def test_the_compose_file_publishes_on_loopback_only() -> None:
    document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = document["services"]["facetd"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert set(document["volumes"]) == {"facetd"}
    _check_variables((DEPLOY / "compose.yaml").read_text())


def test_every_file_has_its_line_in_the_page() -> None:
    page = (DEPLOY / "README.md").read_text()
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.name != "README.md":
            assert path.name in page, path
    _check_variables(page)


def _check_variables(text: str) -> None:
    """Every FACETD_ variable that a file names is one."""
    known = {environment_name(name) for name in settings_module.all_names()}
    known |= {"FACETD_CONFIG_FILE", "FACETD_KERNEL_LEVELS"}
    assert set(re.findall(r"FACETD_[A-Z_]+", text)) <= known


def test_the_man_page_that_a_unit_names_can_be_installed() -> None:
    texts = {unit: unit.read_text() for unit in UNITS}
    naming = [unit for unit, text in texts.items() if "man:facetd" in text]
    assert naming
    for unit in naming:
        assert "facetd man --output" in texts[unit], unit
