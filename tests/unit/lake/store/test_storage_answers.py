"""What an object store's refusals mean."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.lake.store.storage import one_line, storage_unavailable

DOCUMENT = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>The request signature …'
    "</Message><AWSAccessKeyId>the-key</AWSAccessKeyId><StringToSign>AWS4-HMAC</StringToSign></Error>"
)
WRONG_SECRET = (
    f"Generic S3 error: Error performing GET http://127.0.0.1/x in 3ms - status code: 403 Forbidden: {DOCUMENT}"
)


def test_a_document_is_shown_as_its_code():
    assert one_line(WRONG_SECRET).endswith("status code: 403 Forbidden: SignatureDoesNotMatch")
    assert one_line("x <Error>no code</Error> y") == "x y"
    assert one_line('a < b <?xml version="1.0"?> rest') == "a < b rest"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WRONG_SECRET, "the secret is wrong"),
        ("403 Forbidden: <Error><Code>InvalidAccessKeyId</Code></Error>", "does not know the key"),
        ("400 Bad Request: <Error><Code>ExpiredToken</Code></Error>", "the token has expired"),
        ("403 Forbidden: <Error><Code>AccessDenied</Code></Error>", "the credentials lack a right"),
        ("AccessDeniedException: x: (Service: S3, Status Code: 403)", "the credentials lack a right"),
        ("Server returned 503 Service Unavailable", "busy or out of order"),
        ("503: <Error><Code>SlowDown</Code></Error>", "busy or out of order"),
        ("403: <Error><Code>RequestTimeTooSkewed</Code></Error>", "the clock of this machine"),
        ("301 Moved Permanently: <Error><Code>PermanentRedirect</Code></Error>", "another region"),
        ("404: <Error><Code>NoSuchBucket</Code></Error>", "no such bucket"),
        ("connection refused", "check the storage, its options and the access rights"),
    ],
)
def test_each_refusal_has_its_own_advice(text: str, expected: str):
    assert expected in str(storage_unavailable("s3a://lake/x", text))


def test_the_cause_decides_and_is_not_shown():
    error = storage_unavailable("a file", "[FAILED_READ_FILE]", cause=ValueError(f"a row 'secret' {WRONG_SECRET}"))
    assert str(error).startswith("a file cannot be reached ([FAILED_READ_FILE]); the storage does not know the key")
