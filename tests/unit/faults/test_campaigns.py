"""The campaigns can be played, and the page says how many cases they have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from faults.campaigns import CAMPAIGNS

PAGE = Path(__file__).parents[3] / "docs/faults.md"
PLAN = PAGE.read_text(encoding="utf-8").partition("## The last results")[0]
LINE = re.compile(
    r"^\| `(?P<name>[a-z-]+)` \| .* \| (?P<quick>[\d,]+) \| (?P<full>\d+(?:,\d{3})*).*\|$",
    re.MULTILINE,
)
SAID = {found["name"]: (found["quick"], found["full"]) for found in LINE.finditer(PLAN)}


@pytest.mark.slow  # imports Spark, Airflow and the tests that campaigns play with
@pytest.mark.parametrize("name", CAMPAIGNS)
def test_a_campaign_has_as_many_cases_as_the_page_says(name):
    campaign = CAMPAIGNS[name]()
    assert campaign.name == name
    assert SAID[name] == (f"{campaign.quick:,}", f"{campaign.full:,}")
