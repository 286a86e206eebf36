"""How a difference is printed: keys always, values on request."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.conftest import Job, said

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

FILTERED = "SELECT order_id, amount FROM upstream WHERE amount > 3"


def test_values_are_printed_on_request_and_recorded_nowhere(gated: Job):
    gated.write(query=FILTERED)
    said(gated, "change")
    shown = said(gated, "diff", "--values")
    assert shown[3:] == [
        '  changed: ["3"] in cents',
        '    now: {"cents": "1"}',
        '    then: {"cents": "2"}',
        '  added: ["11"]',
        '    now: {"cents": "1"}',
        '    then: {"cents": "2"}',
    ]
    assert gated("diff", "--values", "--recorded").exit_code == 2
    recorded = json.loads(gated("diff", "--recorded", "--json").stdout)
    assert recorded["rows"]["sample"][0] == {"kind": "changed", "key": ["3"], "columns": ["cents"]}
    assert '"2"' not in json.dumps(recorded["rows"])
