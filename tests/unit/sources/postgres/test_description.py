"""A table as the catalog has it: which one a job can use, and what to run if it cannot."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.postgres.description import PostgresDescription
from airflow_backfill_provider.sources.shared.postgresql.catalog import DescribedColumn, DescribedTable
from airflow_backfill_provider.sources.shared.postgresql.types import PostgresType


def column(name, type_="int8", *, nullable=False, generated=False, **more):
    described = type_ if isinstance(type_, PostgresType) else PostgresType(name=type_, **more)
    return DescribedColumn(name=name, type=described, nullable=nullable, generated=generated, may_be_toasted=False)


COLUMNS = (
    column("id"),
    column("region", "text"),
    column("note", "text", nullable=True),
    column("place", "point", nullable=True),
    column("ranges", PostgresType(name="_int4range", element=PostgresType(name="int4range", kind="r"))),
    column("total", "int8", nullable=True, generated=True),
)


def described(*key, columns=COLUMNS, as_text=(), encoding="UTF8", named="shop.orders", **table):
    fields = {
        "oid": 16_384,
        "schema": "shop",
        "name": "orders",
        "columns": columns,
        "identity_key": ("id",),
        "unique_keys": (("id",),),
        **table,
    }
    upstream = PostgresUpstream(connection="shop", table=named, key=key or ("id",), as_text=as_text)
    return PostgresDescription.of(
        "shop: shop.orders",
        Offset(7),
        table_id="1/2/16384",
        table=DescribedTable(**fields),
        encoding=encoding,
        upstream=upstream,
    )


def refusal(error, call):
    with pytest.raises(error) as refused:
        call()
    assert type(refused.value) is error
    return str(refused.value)


def test_columns_have_their_types_or_the_names_of_those_without_a_counterpart():
    assert described().types == {
        "id": "long",
        "region": "string",
        "note": "string",
        "place": "<point>",
        "ranges": "<int4range[]>",
        "total": "long",
    }


def test_any_column_can_be_read_as_text():
    types = described(as_text=("note", "place", "total", "gone")).types
    assert (types["note"], types["place"], types["total"]) == ("string", "string", "string")
    assert types["ranges"] == "<int4range[]>"
    assert "gone" not in types


@pytest.mark.parametrize(
    ("key", "table"),
    [
        (["id"], {}),
        (["region", "id"], {"unique_keys": (("note",), ("id", "region")), "identity_key": ("id", "region")}),
        # The log has more of old rows than the key.
        (["id"], {"identity_key": ("id", "region")}),
        (["id"], {"identity_key": tuple(column.name for column in COLUMNS)}),
    ],
)
def test_a_key_of_a_unique_index_that_the_log_has_is_usable(key, table):
    described(*key, **table).require_usable()


def test_a_key_column_that_is_gone_is_left_to_the_message_about_columns():
    described("gone").require_usable()


@pytest.mark.parametrize("type_", ["float8", "jsonb", "bpchar", "public.mood"])
def test_a_key_of_a_type_without_one_order_is_refused(type_):
    message = refusal(InvalidJobError, described(columns=(column("id", type_),)).require_usable)
    assert message.startswith(f"upstream.key: column 'id' has type {type_}, which cannot be a key; allowed are bool, ")


@pytest.mark.parametrize(
    "table",
    [
        {"as_text": ("id",)},
        {"columns": (column("id", "numeric"),)},
        {"columns": (column("id", "numeric", modifier=2_621_444),)},
    ],
    ids=["as_text", "numeric", "numeric(40,0)"],
)
def test_a_key_of_numbers_that_are_read_as_texts_is_refused(table):
    message = refusal(InvalidJobError, described(**table).require_usable)
    assert "is read as text, which is ordered differently" in message


def test_texts_are_ordered_by_their_bytes_in_utf8_only():
    table = {"unique_keys": (("region",),), "identity_key": ("region",)}
    described("region", **table).require_usable()
    described(encoding="LATIN1").require_usable()
    assert refusal(InvalidJobError, described("region", encoding="LATIN1", **table).require_usable) == (
        "upstream.key: column 'region' holds texts, and the database is encoded in LATIN1; only in UTF8 are they "
        "ordered as in Spark"
    )


@pytest.mark.parametrize(
    ("key", "unique", "known"),
    [
        (["region"], (("id",),), "id"),
        (["id", "region"], (("id",), ("note",)), "id; note"),
        (["id"], (("id", "region"),), "id, region"),
        (["id"], (), "none"),
    ],
)
def test_a_key_without_a_unique_index_is_refused_with_those_that_there_are(key, unique, known):
    message = refusal(InvalidJobError, described(*key, unique_keys=unique).require_usable)
    assert message == (
        f"upstream.key: shop: shop.orders has no unique index over {', '.join(key)}, so a key may have several rows; "
        "give a primary key or the columns of a unique index that is neither partial nor deferrable "
        f"(there are: {known})"
    )


def test_key_columns_that_may_be_null_are_refused_with_what_to_run():
    columns = (column("id", nullable=True), column("region", "text"), column("note", "text", nullable=True))
    key = ("id", "region", "note")
    table = {"columns": columns, "unique_keys": (key,), "identity_key": key}
    assert refusal(InvalidJobError, described(*key, **table).require_usable) == (
        "upstream.key: column id, note may be null, and then the index does not identify a row; run: ALTER TABLE … "
        "ALTER COLUMN … SET NOT NULL"
    )


@pytest.mark.parametrize(
    ("identity", "by"), [((), "nothing"), (("region",), "region"), (("note", "region"), "note, region")]
)
def test_a_log_that_does_not_identify_rows_by_the_key_is_refused_with_the_statement(identity, by):
    message = refusal(UpstreamError, described(identity_key=identity).require_usable)
    assert message == (
        f"shop: shop.orders: the log identifies changed rows by {by}, not by id; run: ALTER TABLE shop.orders REPLICA "
        "IDENTITY FULL, or REPLICA IDENTITY USING INDEX with the key's index"
    )


def test_the_statement_names_the_table_as_the_job_does():
    """Quoted where that is necessary, so that it can be run as it is printed."""
    named = 'shop."Bob""s orders"'
    message = refusal(UpstreamError, described(named=named, name='Bob"s orders', identity_key=()).require_usable)
    assert f"run: ALTER TABLE {named} REPLICA IDENTITY FULL" in message


def test_columns_that_are_not_used_may_be_of_any_kind():
    described().require_columns({"id", "region", "note", "elsewhere"})


@pytest.mark.parametrize(("name", "type_"), [("place", "point"), ("ranges", "int4range[]")])
def test_a_used_column_without_a_counterpart_is_refused(name, type_):
    assert refusal(InvalidJobError, lambda: described().require_columns({"id", name})) == (
        f"query: column '{name}' of shop: shop.orders has type {type_}, which has no counterpart; leave it out, or "
        "name it in upstream.postgres.as_text to read it as text"
    )
    described(as_text=(name,)).require_columns({"id", name})


@pytest.mark.parametrize("as_text", [(), ("total",)])
def test_a_used_column_that_is_generated_is_refused(as_text):
    message = refusal(InvalidJobError, lambda: described(as_text=as_text).require_columns({"total"}))
    assert message == (
        "query: column 'total' of shop: shop.orders is generated, and PostgreSQL's log has no such columns; write its "
        "expression in the query instead"
    )
