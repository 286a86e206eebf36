"""Several jobs in the order of their views."""

from __future__ import annotations

import itertools

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.job_order import downstream_of, in_order
from tests.several import shape_of_several, star


def job(name, upstream, view="", **fields):
    key = {"key": ["id"]}
    return BackfillJob(
        name=name,
        upstream=({"path": upstream} if upstream.startswith("/") else {"table": upstream}) | key,
        materialized_view=view or f"/lake/{name}",
        query="SELECT id FROM upstream",
        **fields,
    )


FIRST, SECOND, THIRD = job("first", "/lake/orders"), job("second", "/lake/first"), job("third", "/lake/second")
OTHER = job("other", "/lake/elsewhere")


@pytest.mark.parametrize("given", itertools.permutations([FIRST, SECOND, THIRD, OTHER]))
def test_a_job_comes_after_the_one_whose_view_it_reads(given):
    ordered = [found for found in in_order(given) if found is not OTHER]
    assert ordered == [FIRST, SECOND, THIRD]
    assert downstream_of(FIRST, given) == [SECOND, THIRD]
    assert downstream_of(SECOND, given) == [THIRD]
    assert downstream_of(THIRD, given) == []


def test_a_view_is_found_under_its_name_in_a_catalog_and_at_its_location():
    first = job("first", "/lake/orders", "prod.sales.first", view_path="/lake/first", state="/state/first")
    for second in (job("second", "prod.sales.first"), job("second", "/lake/first")):
        assert in_order([second, first]) == [first, second]


def test_jobs_in_a_circle_are_refused_with_their_names():
    circle = [job("first", "/lake/second"), job("second", "/lake/first")]
    with pytest.raises(InvalidJobError, match="in a circle: (first → second → first|second → first → second)"):
        in_order(circle)


def test_two_jobs_of_one_name_are_refused():
    with pytest.raises(InvalidJobError, match="two of the jobs are called first"):
        in_order([FIRST, job("first", "/lake/elsewhere", "/lake/another")])


def test_a_job_comes_after_the_views_of_all_its_upstreams():
    names = {"orders": {"path": "/lake/orders", "key": ["id"]}, "customers": {"path": "/lake/people", "key": ["id"]}}
    with shape_of_several():
        both = BackfillJob(**star(upstreams=names))
    people = job("people", "/lake/everybody")
    assert [found.name for found in in_order([both, people])] == ["people", both.name]
    assert downstream_of(people, [both]) == [both]
