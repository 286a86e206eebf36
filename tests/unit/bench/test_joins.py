"""The views of the benchmark of joins, and what it is measured by."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.planning.plan import make_plan
from bench.figures import LARGE
from bench.joins.main import KINDS
from bench.joins.results import TARGETS
from bench.joins.star import Star
from bench.joins.views import CHAIN, CHANGED_DIMENSION, JOIN, REVENUE, STAR, view_of
from tests.builders import write_table

pytestmark = pytest.mark.slow  # imports Spark


@pytest.fixture
def star(tmp_path):
    """The star's tables, with a row each."""
    rows = {
        "sales": {"sale_id": 1, "customer_id": 1, "product_id": 1, "amount": 1, "sold_at": 1},
        "customers": {"customer_id": 1, "name": "a", "country": "x"},
        "products": {"product_id": 1, "name": "b", "category": "y"},
    }
    for name, row in rows.items():
        write_table(tmp_path / name, {column: pa.array([value]) for column, value in row.items()})
    return Star(tmp_path, 1)


@pytest.mark.parametrize(
    ("kind", "technique", "reads"), [(JOIN, "unit", 2), (STAR, "unit", 3), (REVENUE, "fold", 2), (CHAIN, "unit", 2)]
)
def test_each_view_is_a_job_over_the_star(star, kind, technique, reads):
    view = view_of(kind, star)

    plan = make_plan(Backfill(view.jobs[0]))

    assert (plan.technique, len(plan.upstreams)) == (technique, reads)
    assert plan.upstreams["customers"].change is not None
    assert all(f"delta.`{star.folder}/{name}`" in view.statement for name in plan.upstreams)


def test_revenue_is_the_last_view_of_a_chain(star):
    rows, sums = view_of(CHAIN, star).jobs

    assert sums.upstream.location == rows.materialized_view


def test_every_target_is_about_what_the_benchmark_measures():
    """A target reads the figures of views that take part, so a complete file of results has them all."""
    kinds = (*KINDS[LARGE], CHANGED_DIMENSION)
    whats = ("epoch", "computed", "first load", "computed for the first load", "pipeline")
    figures = [{"what": what, "size": LARGE, "kind": kind, "seconds": 1.0} for kind in kinds for what in whats]

    assert [target.figure({"figures": figures}) for target in TARGETS] == [1.0] * 5
