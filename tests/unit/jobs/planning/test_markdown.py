"""What people read in Airflow's UI."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_backfill_provider.jobs.planning.markdown import definition_markdown, plan_markdown
from airflow_backfill_provider.jobs.planning.plan_text import PlanText
from tests.builders import job_of

PLAN = PlanText(
    heading="paid_orders: not created yet",
    facts=(("strategy", "no_shuffle: by id"), ("warning", "a table at `/lake/a|b*<c>`\nis there already")),
    costs=(("no_shuffle", "1,000", "5 bytes", "4", "5", "0.04"),),
    basis="hours are rough",
    closing="nothing was written",
)


def test_a_definition_shows_the_query_as_it_is_written():
    job = job_of(query="SELECT id, amount * 100 AS cents\nFROM upstream WHERE status = '| paid'")

    assert definition_markdown(job) == (
        "`/lake/paid_orders` is the query below over `/lake/orders`.\n\n"
        "    SELECT id, amount * 100 AS cents\n    FROM upstream WHERE status = '| paid'\n"
    )


def test_a_plan_is_a_table_of_facts_and_one_of_costs():
    lines = plan_markdown(PLAN).splitlines()

    assert lines[0] == "**paid_orders: not created yet**"
    assert "| strategy | no_shuffle: by id |" in lines
    assert "| no_shuffle | 1,000 | 5 bytes | 4 | 5 | 0.04 |" in lines
    assert lines[-1] == "nothing was written"


def test_text_that_a_plan_quotes_cannot_break_the_table():
    assert r"| warning | a table at \`/lake/a\|b\*\<c\>\` is there already |" in plan_markdown(PLAN).splitlines()


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/lake/a`b", "``/lake/a`b``"),
        ("/lake/`a``b`", "``` /lake/`a``b` ```"),
        ("/lake/[Approve](http://evil)", "`/lake/[Approve](http:/evil)`"),
        ("/lake/<img src=x>", "`/lake/<img src=x>`"),
    ],
)
def test_a_location_is_code_whatever_it_contains(location, shown):
    job = job_of(materialized_view=location, state="/lake/state")
    assert definition_markdown(job).startswith(f"{shown} is the query below")


def test_the_name_of_a_topic_makes_no_line_of_its_own():
    topic = {"kafka": {"connection": "events", "topic": "a`\n\n# Approved by Vera\n"}}
    job = job_of(upstream=topic, strategy="auto", query="SELECT offset FROM upstream")
    assert "over ``events: a` # Approved by Vera``.\n" in definition_markdown(job)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a _b_ ~~c~~ &lt;d&gt;", r"a \_b\_ \~\~c\~\~ \&lt;d\&gt;"),
        ("no_shuffle", "no_shuffle"),
        ("see http://evil/a|b now", r"see `http://evil/a\|b` now"),
        ("see WWW.evil.example", "see `WWW.evil.example`"),
        ("ask vera@evil.example", "ask `vera@evil.example`"),
        ("![x](https://evil/x.png)", "`![x](https://evil/x.png)`"),
        ("# a\n# b", "# a # b"),
    ],
)
def test_a_text_of_a_plan_makes_no_markup_and_no_link(written, shown):
    plan = replace(PLAN, facts=(("warning", written),))
    assert f"| warning | {shown} |" in plan_markdown(plan).splitlines()
