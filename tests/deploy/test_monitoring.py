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

from coordinator.routes import ROUTES
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


SEARCHES = {
    "GET /{index}/search",
    "POST /{index}/search",
    "POST /_search",
    "POST /1/indexes/*/queries",
    "POST /1/indexes/{indexName}/query",
    "GET /1/indexes/{indexName}/query",
}


def test_latencies_are_those_of_all_kinds_of_searches() -> None:
    known = {f"{route.method} {route.path}" for route in ROUTES}
    asked = [rule["expr"] for rule in rules()]
    asked += [target["expr"] for panel in panels() for target in panel["targets"]]
    patterns = {found for one in asked for found in re.findall(r'route=~"([^"]*)"', one)}
    assert known >= SEARCHES
    for pattern in patterns:
        assert {route for route in known if re.fullmatch(pattern, route)} == SEARCHES


SHARD = '{instance="a",job="facetd",shard="0"}'
HOST = '{instance="a",job="facetd"}'
INDEX = '{index="films",instance="a",job="facetd",shard="0"}'
REQUEST = 'instance="a",job="facetd",route="POST /1/indexes/*/queries"'
WELL = {
    f"up{HOST}": "1+0x600",
    f"facetd_shard_up{SHARD}": "1+0x600",
    f"facetd_shard_starts_total{SHARD}": "2+0x600",
    f"facetd_shard_corrupt_items{SHARD}": "0+0x600",
    f"facetd_disk_free_bytes{HOST}": "90+0x600",
    f"facetd_disk_size_bytes{HOST}": "100+0x600",
    f"facetd_map_used_bytes{INDEX}": "10+0x600",
    f"facetd_map_max_bytes{INDEX}": "100+0x600",
    f"facetd_start_time_seconds{HOST}": "0+0x600",
    f"facetd_log_up{HOST}": "1+0x600",
    f"facetd_log_servers{HOST}": "3+0x600",
    f"facetd_log_servers_current{HOST}": "3+0x600",
    f"facetd_replica_hosts_away{HOST}": "0+0x600",
    f"facetd_replica_trouble{HOST}": "0+0x600",
    f"facetd_replica_lag_seconds{HOST}": "0.5+0x600",
    f"facetd_replica_differs{HOST}": "0+0x600",
    f"facetd_replica_compared_age_seconds{HOST}": "1800+0x600",
    f'facetd_http_requests_total{{{REQUEST},status="200"}}': "0+99x600",
    f'facetd_http_requests_total{{{REQUEST},status="503"}}': "0+1x600",
    f'facetd_http_request_seconds_bucket{{{REQUEST},le="0.1"}}': "0+100x600",
    f'facetd_http_request_seconds_bucket{{{REQUEST},le="1.0"}}': "0+100x600",
    f'facetd_http_request_seconds_bucket{{{REQUEST},le="+Inf"}}': "0+100x600",
}
"""What Prometheus scrapes every 30 s, for five hours, of a service that is well."""
ILL = {
    "FacetdDown": {f"up{HOST}": "0+0x600"},
    "FacetdShardDown": {f"facetd_shard_up{SHARD}": "0+0x600"},
    "FacetdShardRestarts": {f"facetd_shard_starts_total{SHARD}": "2+1x600"},
    "FacetdDiskFillsUp": {f"facetd_disk_free_bytes{HOST}": "9+0x600"},
    "FacetdDamagedItems": {f"facetd_shard_corrupt_items{SHARD}": "1+0x600"},
    "FacetdErrors": {f'facetd_http_requests_total{{{REQUEST},status="503"}}': "0+10x600"},
    "FacetdMapFillsUp": {f"facetd_map_used_bytes{INDEX}": "81+0x600"},
    "FacetdSlow": {f'facetd_http_request_seconds_bucket{{{REQUEST},le="0.1"}}': "0+90x600"},
    "FacetdLogLost": {f"facetd_log_up{HOST}": "0+0x600"},
    "FacetdLogServerLost": {f"facetd_log_servers_current{HOST}": "2+0x600"},
    "FacetdReplicaLost": {f"facetd_replica_hosts_away{HOST}": "1+0x600"},
    "FacetdReplicaStopped": {f"facetd_replica_trouble{HOST}": "1+0x600"},
    "FacetdReplicaLags": {f"facetd_replica_lag_seconds{HOST}": "11+0x600"},
    "FacetdReplicasDiffer": {f"facetd_replica_differs{HOST}": "1+0x600"},
    "FacetdReplicasNotCompared": {f"facetd_replica_compared_age_seconds{HOST}": "14401+0x600"},
}
"""By alert: what differs where it is to fire."""
NEVER_SINCE_THE_START = {
    "FacetdReplicaLags": {f"facetd_replica_lag_seconds{HOST}": "-1+0x600"},
    "FacetdReplicasNotCompared": {f"facetd_replica_compared_age_seconds{HOST}": "-1+0x600"},
}


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (package prometheus) is absent"
)
def test_each_alert_fires_and_no_other(tmp_path: Path) -> None:
    assert ILL.keys() == {rule["alert"] for rule in rules() if "alert" in rule}
    cases = [("", {}), *ILL.items(), *NEVER_SINCE_THE_START.items()]
    firing = 'ALERTS{alertstate="firing"}'
    tests = [
        {
            "interval": "30s",
            "input_series": [
                {"series": series, "values": values} for series, values in (WELL | ill).items()
            ],
            "promql_expr_test": [
                {
                    "expr": f"count by (alertname) ({firing})",
                    "eval_time": "5h",
                    "exp_samples": [
                        {"labels": f'{{alertname="{alert}"}}', "value": 1} for _ in ill
                    ],
                }
            ],
        }
        for alert, ill in cases
    ]
    path = tmp_path / "tests.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
