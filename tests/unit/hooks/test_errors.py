"""The package's errors as Airflow's."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_backfill_provider.core.errors import BackfillError, ConcurrentUpdateError, InvalidJobError
from airflow_backfill_provider.hooks.errors import airflow_errors


def subclasses(error: type[BackfillError]) -> list[type[BackfillError]]:
    return [error, *(deeper for subclass in error.__subclasses__() for deeper in subclasses(subclass))]


@pytest.mark.parametrize("error", subclasses(BackfillError))
def test_an_error_keeps_its_message_and_is_retried_only_where_that_can_help(error):
    with pytest.raises(AirflowException, match=r"^what is wrong$") as raised, airflow_errors():
        raise error("what is wrong")

    assert isinstance(raised.value, AirflowFailException) is not error.retryable


def test_the_original_error_is_the_cause():
    assert ConcurrentUpdateError.retryable
    with pytest.raises(AirflowFailException) as raised, airflow_errors():
        raise InvalidJobError("x")
    assert isinstance(raised.value.__cause__, InvalidJobError)


def test_other_errors_pass():
    with pytest.raises(ZeroDivisionError), airflow_errors():
        _ = 1 / 0
