"""Options of one bucket: which hold where, and that every library gets those of the location that it opens."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_backfill_provider
from airflow_backfill_provider.core.errors import StorageOptionsError
from airflow_backfill_provider.lake.store.bucket_options import BucketOption, buckets_of, options_of

GENERAL = {
    "AWS_REGION": "eu-central-1",
    "AWS_ACCESS_KEY_ID": "general",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "AWS_SESSION_TOKEN": "token",
}
RAW = {"bucket.raw.AWS_ACCESS_KEY_ID": "of raw", "bucket.raw.AWS_SECRET_ACCESS_KEY": "hush-hush"}


@pytest.mark.parametrize("options", [None, {}])
def test_no_options(options):
    assert options_of("s3a://raw/orders", options) is None


@pytest.mark.parametrize("location", ["s3a://marts/view", "/lake/view", "gs://raw/orders", "abfss://raw@x/orders"])
def test_other_locations_have_the_general_options(location):
    assert options_of(location, GENERAL | RAW) == GENERAL


@pytest.mark.parametrize("location", ["s3a://raw/orders", "s3://raw/orders", "s3a://raw"])
def test_credentials_of_a_bucket_replace_all_general_ones(location):
    assert options_of(location, GENERAL | RAW) == {
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "of raw",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
    }


def test_another_name_of_an_option_is_replaced_too():
    options = {"AWS_ENDPOINT_URL_S3": "http://general", "aws_region": "us-east-1"}
    of_raw = {"bucket.raw.AWS_ENDPOINT_URL": "http://raw", "bucket.raw.AWS_DEFAULT_REGION": "eu-west-1"}
    assert options_of("s3a://raw/orders", options | of_raw) == {
        "AWS_ENDPOINT_URL": "http://raw",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }


def test_what_holds_for_a_location_holds_for_it_again():
    once = options_of("s3a://raw/orders", GENERAL | RAW)
    assert options_of("s3a://raw/orders", once) == once


def test_a_bucket_has_dots_in_its_name():
    assert BucketOption.of("bucket.data.example.org.AWS_REGION") == BucketOption("data.example.org", "AWS_REGION")
    assert options_of("s3a://data.example.org/t", {"bucket.data.example.org.AWS_REGION": "x"}) == {"AWS_REGION": "x"}


@pytest.mark.parametrize(
    "name", ["bucket.raw", "bucket.raw.GOOGLE_SERVICE_ACCOUNT", "bucket.AWS_REGION", "bucket.Raw.AWS_REGION"]
)
def test_a_wrong_name_is_refused(name):
    with pytest.raises(StorageOptionsError, match=r"bucket\.raw\.AWS_REGION"):
        options_of("/lake", {name: "x"})


def test_the_buckets_with_options():
    assert buckets_of(GENERAL) == []
    assert buckets_of(GENERAL | RAW | {"bucket.a1.AWS_REGION": "x"}) == ["a1", "raw"]


OPENS = {"DeltaTable", "is_deltatable", "DeltaStorageHandler", "write_deltalake", "create"}
"""What opens a location through deltalake."""


def calls() -> Iterator[tuple[str, ast.expr]]:
    """Yield each place where deltalake gets options, and the options."""
    package = Path(airflow_backfill_provider.__file__).parent
    for file in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            given = [keyword.value for keyword in node.keywords if keyword.arg == "storage_options"]
            if name == "DeltaStorageHandler":
                given = node.args[1:]
            if name in OPENS:
                yield from ((f"{file.relative_to(package)}:{node.lineno}", options) for options in given)


def test_every_library_gets_the_options_of_the_location_that_it_opens():
    found = list(calls())
    assert len(found) > 20
    others = [
        place
        for place, options in found
        if not (isinstance(options, ast.Call) and getattr(options.func, "id", "") == "options_of")
    ]
    assert others == []
