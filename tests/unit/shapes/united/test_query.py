"""Which unions are accepted, and what a job learns of them from their text and from its tables."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.kinds import further_leads, shape_of
from airflow_backfill_provider.shapes.several import QueryTable
from airflow_backfill_provider.shapes.united.query import check_union_query, looks_united
from tests.builders import settings_of

SALES = (
    "SELECT 'b' AS shop, id, c.name FROM berlin AS b JOIN customers AS c ON c.number = b.customer "
    "UNION ALL SELECT 'o', NULL, code FROM online UNION ALL SELECT 'again', id, 'none' FROM berlin"
)
TABLES = {
    "online": QueryTable(key=("code",), types={"code": "string", "amount": "long"}),
    "berlin": QueryTable(key=("id",), types={"id": "long", "customer": "long", "amount": "long"}),
    "customers": QueryTable(key=("number",), types={"number": "long", "name": "string"}),
}


def tables(*names):
    return {name: TABLES[name] for name in names}


def sales(lead="berlin"):
    return check_union_query(SALES).resolved(tables(lead, *(name for name in TABLES if name != lead)))


def job(query, *names, **changes):
    fields = {
        "name": "sales",
        "upstreams": {name: {"path": f"/lake/{name}", "key": list(TABLES[name].key)} for name in names},
        "materialized_view": "/lake/sales",
        "query": query,
    }
    return BackfillJob(**{**fields, **changes})


def test_the_text_alone_tells_which_tables_lead():
    query = check_union_query(SALES)
    assert query.relations == ("berlin", "customers", "online")
    assert query.leads == ("berlin", "online"), "each once"


@pytest.mark.parametrize("lead", ["berlin", "online"])
def test_any_table_that_leads_a_branch_may_lead_the_job(lead):
    query = sales(lead)
    assert query.relations[0] == query.leads[0] == lead
    assert {*query.leads} == {"berlin", "online"}
    assert query.read_whole == ("customers",)
    assert query.further == tuple(name for name in query.leads if name != lead)


def test_each_place_reads_what_it_shall():
    """A table that leads two branches gives both of them the same rows."""
    text = sales("online").text_over("rows", {"berlin leading": "of_berlin", "customers": "everyone"})
    assert text.count("FROM `of_berlin`") == 2
    assert "JOIN `everyone` AS c" in text
    assert "FROM `rows`" in text


def test_a_unit_is_a_branch_with_the_key_of_its_lead():
    """Keys of one type share a column, and those of another type have one of their own; no value is converted."""
    query = sales()
    units = query.units(settings_of(), by_key=False)
    assert units.outputs == ("__branch", "__key_0", "__key_1")
    assert [field.type for field in units.order.fields] == ["integer", "long", "string"]
    assert units.hashed is None
    assert query.holds_distribution_key(settings_of())


def test_only_tables_that_are_joined_give_images():
    assert sales().images() == {"customers": ("number",)}
    assert sales().keyed == {"customers"}


def test_the_number_of_the_branch_has_no_origin():
    """The lineage has hidden keys, and nothing of a column that only this package made up."""
    lineage = sales().lineage([], [], [])
    assert "__branch" not in lineage.columns
    assert lineage.columns["__key_0"].inputs == ("berlin.id",)
    assert lineage.columns["name"].inputs == ("customers.name", "online.code")


def test_a_table_that_is_also_joined_to_another_branch_is_read_whole_there():
    text = (
        "SELECT id, amount FROM berlin UNION ALL "
        "SELECT o.amount, b.amount FROM online AS o LEFT JOIN berlin AS b ON b.id = o.amount"
    )
    query = check_union_query(text).resolved(tables("berlin", "online"))
    assert query.read_whole == ("berlin",)
    rendered = query.text_over("changed", {"berlin": "whole", "online leading": "o"})
    assert "FROM `changed`" in rendered
    assert "JOIN `whole` AS b" in rendered


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT id FROM berlin UNION SELECT id FROM paris", "groups the rows of a union"),
        ("SELECT count(*) FROM (SELECT id FROM berlin UNION ALL SELECT id FROM paris) AS u", "groups the rows"),
        ("SELECT id FROM berlin UNION ALL SELECT id FROM paris LIMIT 3", "LIMIT"),
        ("SELECT id FROM berlin INTERSECT SELECT id FROM paris", "INTERSECT"),
    ],
)
def test_other_queries_have_another_shape_or_none(text, message):
    with pytest.raises(InvalidJobError, match=message):
        check_union_query(text)


def test_a_union_has_this_shape_and_a_join_has_not():
    assert shape_of(SALES, upstreams=tuple(TABLES)).name == "union"
    assert looks_united("SELECT id FROM a UNION SELECT id FROM b")
    assert not looks_united("SELECT `UNION` FROM a")
    assert not looks_united("SELECT 'no end")


def test_the_further_leads_of_a_job_have_the_names_of_its_definition():
    text = "SELECT id FROM BERLIN UNION ALL SELECT amount FROM Online"
    assert further_leads(job(text, "berlin", "online")) == ("online",)
    assert further_leads(job(text, "berlin", "online", lead="online")) == ("berlin",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lead": "customers"}, "leads no branch"),
        ({"strategy": "no_shuffle"}, "snapshot"),
        ({"strategy": "arrangement"}, "snapshot"),
        ({"visibility": "every_epoch"}, "visibility"),
        ({"restrict_to": {"vnodes": [1]}}, "restrict_to"),
        ({"restrict_to": {"keys": {"after": [1]}}}, "restrict_to"),
    ],
)
def test_what_a_union_cannot_do_is_refused_by_name(changes, message):
    with pytest.raises(InvalidJobError, match=message):
        job(SALES, *TABLES, **changes)


def test_a_union_of_one_upstream_needs_no_names():
    text = "SELECT id FROM upstream WHERE amount > 1 UNION ALL SELECT -id FROM upstream"
    fields = {"upstream": {"path": "/lake/berlin", "key": ["id"]}, "upstreams": None}
    made = {name: value for name, value in fields.items() if value}
    found = BackfillJob(name="sales", materialized_view="/lake/sales", query=text, **made)
    assert shape_of(text).name == "union"
    assert further_leads(found) == ()
    query = check_union_query(text).resolved({"upstream": TABLES["berlin"]})
    assert (query.leads, query.read_whole) == (("upstream",), ())
    assert query.text_over("rows", {}).count("`rows`") == 2
