"""Addresses of Spark Connect servers."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidRemoteError
from airflow_backfill_provider.core.remote import Remote, is_remote


def test_an_address_needs_a_host_only():
    assert Remote.parse("sc://spark.example") == Remote(host="spark.example", port=15002)


def test_an_address_with_everything():
    remote = Remote.parse("sc://spark.example:443/;use_ssl=true;user_id=me%3B;token=a%2Fb;x-team=night")

    assert remote == Remote(
        host="spark.example", port=443, use_ssl=True, user_id="me;", token="a/b", headers=(("x-team", "night"),)
    )


@pytest.mark.parametrize(
    "url",
    [
        "sc://spark.example:443/;user_id=me%3B;use_ssl=true;token=a%2Fb;x-team=night",
        "sc://spark.example:15002",
        "sc://[2001:db8::1]:15002/;user_id=me",
    ],
)
def test_an_address_is_written_as_it_was_read(url):
    assert Remote.parse(url).url() == url


def test_a_printed_address_has_no_secret():
    remote = Remote.parse("sc://spark.example:443/;use_ssl=true;token=very-secret;authorization=also-secret")

    assert str(remote) == "sc://spark.example:443"
    assert "secret" not in repr(remote)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_token_for_this_machine_goes_to_the_one_name_that_spark_allows(host):
    remote = Remote.parse(f"sc://{host}:15099")

    assert remote.is_loopback
    assert remote.with_token("t").url() == "sc://localhost:15099/;token=t"
    assert remote.url() == f"sc://{host}:15099"


def test_a_session_can_be_named():
    url = Remote.parse("sc://spark.example/;user_id=me").url(session_id="0a")

    assert url == "sc://spark.example:15002/;user_id=me;session_id=0a"


@pytest.mark.parametrize(
    "url",
    [
        "spark://spark.example:7077",
        "sc://",
        "sc://spark.example:port",
        "sc://spark.example/path",
        "sc://spark.example/?use_ssl=true",
        "sc://me:very-secret@spark.example",
        "sc://spark.example/;very-secret",
        "sc://spark.example/;session_id=1",
    ],
)
def test_an_invalid_address_is_refused_without_repeating_a_secret(url):
    with pytest.raises(InvalidRemoteError) as error:
        Remote.parse(url)
    assert "very-secret" not in str(error.value).replace("me:very-secret@spark.example", "")


def test_masters_are_distinguished_from_servers():
    assert is_remote("sc://localhost")
    assert not any(map(is_remote, ["local[2]", "yarn", "spark://master:7077", "k8s://https://host"]))
