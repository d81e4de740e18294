"""The files in deploy/ name what the server has: options, metrics, probes."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from transduce.cli.serve import warn_of_unsupported

if TYPE_CHECKING:
    from tests.served import Served

DEPLOY = Path(__file__).parents[3] / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())


def exported(served: "Served") -> set[str]:
    """Names of the samples of /metrics, also of those without a sample yet."""
    names: set[str] = set()
    text = served.ask("GET", "/metrics").text
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        names |= {name}
        names |= {f"{name}_{part}" for part in ("bucket", "count", "sum") if kind == "histogram"}
    return names


def test_the_dashboard_shows_only_metrics_that_are_exported(served: "Served") -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]

    used = set(re.findall(r"\b(?:transduce|libretranslate)_\w+", " ".join(expressions)))

    assert len(used) >= 6
    assert used <= exported(served)


def test_pods_are_scaled_by_a_metric_that_is_exported(served: "Served") -> None:
    text = (DEPLOY / "kubernetes" / "autoscaling.yaml").read_text()
    (name,) = re.findall(r"metric:\n\s+name: (\w+)", text)

    assert name in exported(served)


def test_every_variable_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    names = {name for path in FILES for name in re.findall(r"\bLT_\w+", path.read_text())}

    warn_of_unsupported(dict.fromkeys(names, "1"))

    assert len(names) >= 4
    assert capsys.readouterr().err == ""


def test_every_probe_is_a_path_of_the_server(served: "Served") -> None:
    text = " ".join(path.read_text() for path in FILES)
    probes = set(re.findall(r"(?:httpGet: { path: |localhost:5000)(/\w+)", text))

    assert probes == {"/health", "/ready"}
    assert {served.ask("GET", path).status_code for path in probes} == {200}


def test_the_cache_is_where_compiled_code_may_run() -> None:
    unit = (DEPLOY / "transduce.service").read_text()
    places = re.findall(r"^CacheDirectory=(\w+)$", unit, re.MULTILINE)

    assert re.findall(r"TRANSDUCE_CACHE=(\S+)", unit) == [f"/var/cache/{name}" for name in places]
    assert places
    for name in ("Containerfile", "compose.yaml"):
        assert "/tmp:exec" in (DEPLOY / name).read_text()
