"""The tree of errors: one root, and each class says whether a retry can help."""

from __future__ import annotations

import inspect

import pytest

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.errors import BackfillError

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)]
RETRYABLE = {
    "DatabaseUnavailableError",
    "KafkaUnavailableError",
    "NotFinishedError",
    "CatalogUnavailableError",
    "CompactionFailedError",
    "ConcurrentUpdateError",
    "EpochFailedError",
    "EpochGivenUpError",
    "RegistryUnavailableError",
    "SparkServerUnavailableError",
    "StorageUnavailableError",
    "UpstreamNotFinishedError",
    "UpstreamUnavailableError",
    "VerificationFailedError",
}


@pytest.mark.parametrize("error", CLASSES)
def test_every_error_has_the_one_root_and_knows_whether_a_retry_helps(error):
    assert issubclass(error, errors.BackfillError)
    assert error.retryable is (error.__name__ in RETRYABLE)


def test_an_error_of_the_upstream_can_be_caught_as_one():
    of_the_upstream = {error for error in CLASSES if issubclass(error, errors.UpstreamError)}
    assert errors.ChangeFeedGapError in of_the_upstream
    assert errors.DuplicateKeyError in of_the_upstream
    assert errors.StateError not in of_the_upstream


def test_a_message_is_one_line_that_is_not_too_long_whatever_spark_says() -> None:
    """The command line, logs and pages show it; what to do stands at its end."""
    error = BackfillError("query: [AMBIGUOUS]\n  plan\n" + "x" * 12_000 + "\ncorrect the query")
    assert str(error).startswith("query: [AMBIGUOUS] plan x")
    assert str(error).endswith(" correct the query")
    assert len(str(error).splitlines()) == 1
    assert len(str(error)) <= 2_010
