"""The Grafana dashboard asks for what /metrics has, and for all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.timing import EndedBy, Mark, TurnRecord
from server.metrics import Metrics
from server.self_test import Outcome
from tests.server.state import server_state

DASHBOARD = json.loads((Path(__file__).parents[2] / "docs/grafana-dashboard.json").read_text())
# Prometheus itself adds the machine.
ADDED_LABELS = {"instance", "job"}


def queries() -> Iterator[tuple[str, dict[str, Any]]]:
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target) for target in panel.get("targets", []))


def names(query: str) -> set[str]:
    """The samples that a query reads."""
    return set(re.findall(r"\b(?:echoic|process)_\w+", query))


@pytest.fixture(scope="module")
def samples() -> dict[str, set[str]]:
    """Every sample of a server that has seen something of everything, with its labels."""
    metrics = Metrics(lambda: server_state(self_test=Outcome(0.0)))
    marks = {mark: 1.0 for mark in Mark}
    metrics.turn_over("a", TurnRecord(1, ended_by=EndedBy.EVIDENCE, marks=marks))
    metrics.session_over("a", 1000, [])
    metrics.refused("server_full")
    families = text_string_to_metric_families(metrics.scrape("")[1].decode())
    return {one.name: set(one.labels) for family in families for one in family.samples}


@pytest.mark.parametrize(("title", "target"), list(queries()))
def test_a_panel_asks_for_what_there_is(title: str, target: dict[str, Any], samples: dict[str, set[str]]) -> None:
    query = target["expr"]
    assert names(query)
    assert names(query) <= set(samples)
    wanted = {label.strip() for group in re.findall(r"by \(([^)]+)\)", query) for label in group.split(",")}
    shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    known = set[str]().union(*(samples[name] for name in names(query)), ADDED_LABELS)
    assert wanted | shown <= known, title


def test_every_metric_of_echoics_own_has_a_place_on_it(samples: dict[str, set[str]]) -> None:
    asked = set[str]().union(*(names(target["expr"]) for _, target in queries()))
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in samples if not name.endswith("_created")}
    own = {family for family in families if family.startswith("echoic_")}
    assert own <= {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}


def test_no_panel_covers_another() -> None:
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
