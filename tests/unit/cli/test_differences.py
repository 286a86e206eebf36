"""How a difference is printed: keys always, values on request."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Job, WatchedEngine

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

FILTERED = "SELECT order_id, amount FROM upstream WHERE amount > 3"


@pytest.fixture
def served(created: Job, engine: WatchedEngine) -> Job:
    """The job, with a finished view, and a file that asks for approvals."""
    assert created("run", "--until-finished").exit_code == 0
    created.write(cut_over="on_approval")
    engine.starts = 0
    return created


def said(job: Job, *command: str) -> list[str]:
    done = job(*command)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_values_are_printed_on_request_and_recorded_nowhere(served: Job):
    served.write(query=FILTERED)
    said(served, "change")
    shown = said(served, "diff", "--values")
    assert shown[3:] == [
        '  changed: ["3"] in cents',
        '    now: {"cents": "1"}',
        '    then: {"cents": "2"}',
        '  added: ["11"]',
        '    now: {"cents": "1"}',
        '    then: {"cents": "2"}',
    ]
    assert served("diff", "--values", "--recorded").exit_code == 2
    recorded = json.loads(served("diff", "--recorded", "--json").stdout)
    assert recorded["rows"]["sample"][0] == {"kind": "changed", "key": ["3"], "columns": ["cents"]}
    assert '"2"' not in json.dumps(recorded["rows"])
