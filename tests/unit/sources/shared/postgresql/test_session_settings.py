"""A session's own settings; that a server takes them is in ``tests/integration/postgres/test_role_settings.py``."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.sources.shared.postgresql.session_settings import startup_options, statements

LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout")


@pytest.mark.parametrize("name", LIMITS)
def test_no_limit_of_a_role_ends_a_reading(name):
    """Neither before the first statement nor after."""
    assert f"-c {name}=0" in startup_options()
    assert f"SET {name} TO '0'" in statements()


def test_a_limit_of_newer_servers_is_set_only_where_it_exists():
    """An older server refuses a connection with an option that it does not know."""
    assert "transaction_timeout=" not in startup_options().replace("idle_in_transaction", "").replace("session", "")
    assert statements().endswith("FROM pg_catalog.pg_settings s WHERE s.name = 'transaction_timeout'")


def test_blanks_in_an_option_are_escaped():
    assert r"-c DateStyle=ISO,\ YMD" in startup_options()
    assert "SET DateStyle TO 'ISO, YMD'" in statements()


def test_what_a_driver_sets_itself_can_be_left_out():
    assert "DateStyle" not in startup_options(without={"DateStyle"})
    assert "DateStyle" not in statements(without={"DateStyle"})
