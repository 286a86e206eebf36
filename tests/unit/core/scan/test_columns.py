"""The package's own column names never clash with those of users."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.columns import OwnColumns, names_within, own_columns


@pytest.mark.parametrize(
    ("names", "prefix"),
    [
        ([], "__"),
        (["id", "a__b", "__", "_commit"], "___"),
        (["id", "_id"], "__"),
        (["_", ""], "__"),
        (["__vnode"], "___"),
        (["__VNODE", "id"], "___"),
        (["__is_last", "___is_last"], "____"),
        (["___anything", "__Epoch", "id"], "____"),
    ],
)
def test_our_names_begin_with_more_underscores_than_any_other(names, prefix):
    assert own_columns(names) == OwnColumns(prefix)


def test_without_a_clash_the_names_are_the_documented_ones():
    own = own_columns(["id", "vnode", "is_upsert"])
    assert (own.vnode, own.epoch, own.is_upsert, own.appeared) == ("__vnode", "__epoch", "__is_upsert", "__appeared")
    assert own.named("is_last") == "__is_last"
    assert own.numbered("changed", 2) == ["__changed_0", "__changed_1"]


NAMES = st.lists(
    st.one_of(st.from_regex(r"_{0,6}(VNODE|epoch|Is_Upsert|appeared|changed_[01])?", fullmatch=True), st.text()),
    max_size=8,
)


@settings(max_examples=40)
@given(NAMES, st.randoms())
def test_no_name_clashes_in_any_case_and_order_makes_no_difference(names, random):
    own = own_columns(names)
    ours = {own.vnode, own.epoch, own.is_upsert, own.appeared, own.named("changed_0"), own.named("")}
    assert ours.isdisjoint({spelled for name in names for spelled in (name.lower(), name.casefold(), name)})
    assert not any(name.startswith(own.prefix) for name in names)
    shuffled = random.sample(names, len(names))
    assert own_columns(shuffled) == own_columns([name.upper() for name in names]) == own


def test_the_fields_inside_of_columns_are_names_too():
    inner = {"type": "struct", "fields": [{"name": "deep", "type": "long", "nullable": True, "metadata": {}}]}
    fields = [
        {"name": "list", "type": {"type": "array", "elementType": inner, "containsNull": True}},
        {"name": "map", "type": {"type": "map", "keyType": "string", "valueType": {**inner, "fields": []}}},
        {"name": "plain", "type": "string"},
    ]
    types = {"id": "long", "s": json.dumps({"type": "struct", "fields": fields}), "price": "decimal(10,2)"}
    assert names_within(types) == {"id", "s", "price", "list", "map", "plain", "deep"}
