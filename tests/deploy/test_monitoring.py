"""Alerts and dashboard name metrics that the service has, and Prometheus accepts the alerts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.test_metrics import FAMILIES, REPLICA_FAMILIES
from tests.service import ROOT

FOLDER = ROOT / "deploy" / "monitoring"
RULES = FOLDER / "facetd.rules.yml"
DASHBOARD = FOLDER / "grafana-dashboard.json"
METRIC = re.compile(r"\bfacetd_\w+")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def families_of(expression: str) -> set[str]:
    """Return the families of the metrics that an expression reads."""
    return {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in METRIC.findall(expression)}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_an_alert_reads_metrics_that_exist(rule: dict[str, Any]) -> None:
    assert families_of(rule["expr"]) <= FAMILIES.keys() | REPLICA_FAMILIES
    if "alert" in rule:
        assert {"summary", "description"} <= rule["annotations"].keys()


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_a_panel_reads_metrics_that_exist(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        found = families_of(target["expr"])
        assert found
        assert found <= FAMILIES.keys() | REPLICA_FAMILIES


def test_every_metric_of_several_hosts_that_moves_has_a_panel() -> None:
    read = {
        name for panel in panels() for one in panel["targets"] for name in families_of(one["expr"])
    }
    # Two hosts are equal if they do not differ, and the age tells how old that is.
    assert REPLICA_FAMILIES - read == {"facetd_replica_equal", "facetd_replica_compared_seq"}


def test_the_instances_are_asked_for_when_the_dashboard_opens_and_all_are_shown() -> None:
    variables = json.loads(DASHBOARD.read_text())["templating"]["list"]
    (instance,) = [one for one in variables if one["name"] == "instance"]
    assert families_of(instance["query"]) <= FAMILIES.keys()
    assert instance["refresh"] == 1  # without it Grafana asks when the variable is edited
    assert instance["current"]["value"] == ["$__all"]


@pytest.mark.parametrize("panel", panels(), ids=lambda panel: panel["title"])
def test_lines_of_several_instances_can_be_told_apart(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        is_one_line = re.match(r"(sum|min|max|count|histogram_quantile)\b", target["expr"])
        assert is_one_line or "{{instance}}" in target["legendFormat"], target["expr"]


def test_panels_do_not_overlap() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own & cells, panel["title"]
        cells |= own


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (package prometheus) is absent"
)
def test_prometheus_accepts_the_alerts(tmp_path: Path) -> None:
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True, cwd=tmp_path)


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (package prometheus) is absent"
)
def test_prometheus_accepts_what_the_panels_ask(tmp_path: Path) -> None:
    """As rules, since promtool checks the expressions of these."""
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    rules = [
        {
            "record": f"panel:{number}",
            "expr": one.replace("$__rate_interval", "5m").replace("$instance", ".*"),
        }
        for number, one in enumerate(asked)
    ]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    subprocess.run(["promtool", "check", "rules", str(path)], check=True, cwd=tmp_path)
