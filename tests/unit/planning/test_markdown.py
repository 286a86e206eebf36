"""What people read in Airflow's UI."""

from __future__ import annotations

from airflow_backfill_provider.planning.markdown import definition_markdown, plan_markdown
from airflow_backfill_provider.planning.plan_text import PlanText
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
