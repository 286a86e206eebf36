"""Where the strategy's tables are."""

from __future__ import annotations

from airflow_backfill_provider.strategies.source.location import dead_letters_of
from tests.builders import settings_of


def test_the_table_of_an_incarnation_lies_beside_the_control_tables():
    assert dead_letters_of(settings_of()) == "/lake/_backfill/paid_orders/dead_letters_a1"
    assert dead_letters_of(settings_of(incarnation="b2")) == "/lake/_backfill/paid_orders/dead_letters_b2"
