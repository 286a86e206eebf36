"""One set of options for two readers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_backfill_provider.core.errors import StorageOptionsError
from airflow_backfill_provider.lake.store.object_store import hadoop_settings, is_secret, without_secrets

S3 = {
    "AWS_ACCESS_KEY_ID": "AKIA",
    "AWS_SECRET_ACCESS_KEY": "very-secret",
    "AWS_SESSION_TOKEN": "token",
    "AWS_REGION": "eu-central-1",
}


def test_no_options_are_no_settings():
    assert hadoop_settings({}) == {}


def test_keys_and_region_of_amazon():
    assert hadoop_settings(S3) == {
        "fs.s3a.access.key": "AKIA",
        "fs.s3a.secret.key": "very-secret",
        "fs.s3a.session.token": "token",
        "fs.s3a.endpoint.region": "eu-central-1",
    }


@pytest.mark.parametrize(
    ("options", "path_style"),
    [
        ({}, "true"),
        ({"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false"}, "true"),
        ({"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}, "false"),
    ],
)
def test_a_custom_endpoint_has_the_bucket_where_deltalake_has_it(options, path_style):
    options = {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_ALLOW_HTTP": "true", **options}
    assert hadoop_settings(options) == {
        "fs.s3a.endpoint": "http://minio:9000",
        "fs.s3a.path.style.access": path_style,
    }


def test_a_public_bucket():
    (provider,) = hadoop_settings({"AWS_SKIP_SIGNATURE": "true"}).values()
    assert provider.endswith(".AnonymousAWSCredentialsProvider")
    assert hadoop_settings({"AWS_SKIP_SIGNATURE": "false"}) == {}


@pytest.mark.parametrize(
    ("options", "algorithm", "key"),
    [
        ({"AWS_SERVER_SIDE_ENCRYPTION": "AES256"}, "AES256", None),
        ({"AWS_SERVER_SIDE_ENCRYPTION": "aws:kms", "AWS_SSE_KMS_KEY_ID": "arn:1"}, "SSE-KMS", "arn:1"),
        ({"AWS_SERVER_SIDE_ENCRYPTION": "sse-c", "AWS_SSE_CUSTOMER_KEY_BASE64": "a2V5"}, "SSE-C", "a2V5"),
    ],
)
def test_encryption_at_amazon(options, algorithm, key):
    settings = hadoop_settings(options | {"AWS_SSE_BUCKET_KEY_ENABLED": "true", "AWS_FORCE_CREDENTIAL_LOAD": "true"})
    assert settings.pop("fs.s3a.encryption.algorithm") == algorithm
    assert settings.get("fs.s3a.encryption.key") == key


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"AZURE_STORAGE_ACCOUNT_KEY": "k"}, {"fs.azure.account.key": "k"}),
        (
            {"AZURE_STORAGE_SAS_TOKEN": "sig=x"},
            {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "sig=x"},
        ),
        (
            {"AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s", "AZURE_TENANT_ID": "t"},
            {
                "fs.azure.account.auth.type": "OAuth",
                "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
                "fs.azure.account.oauth2.client.id": "c",
                "fs.azure.account.oauth2.client.secret": "s",
                "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
            },
        ),
    ],
)
def test_credentials_of_azure(options, expected):
    assert hadoop_settings({"AZURE_STORAGE_ACCOUNT_NAME": "lake", **options}) == expected


def test_half_a_client_of_azure_is_refused():
    with pytest.raises(StorageOptionsError, match="needs AZURE_STORAGE_CLIENT_ID and AZURE_STORAGE_TENANT_ID"):
        hadoop_settings({"AZURE_CLIENT_SECRET": "very-secret"})


@pytest.mark.parametrize(
    "name", ["GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS"]
)
def test_a_key_file_of_google(name):
    assert hadoop_settings({name: "/keys/lake.json"}) == {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": "/keys/lake.json",
    }


def test_names_may_be_in_lower_case_as_in_deltalake():
    assert hadoop_settings({"aws_access_key_id": "AKIA"}) == {"fs.s3a.access.key": "AKIA"}


@pytest.mark.parametrize(
    "name",
    ["AZURE_STORAGE_TOKEN", "GOOGLE_SERVICE_ACCOUNT_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "secret_access_key"],
)
def test_a_credential_that_hadoop_has_no_name_for_is_refused_without_its_value(name):
    """Otherwise Spark would find other credentials, or none, in the middle of an epoch."""
    with pytest.raises(StorageOptionsError, match=f"{name.upper()} has no counterpart") as caught:
        hadoop_settings({name: "very-secret", **S3})
    assert "very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["AWS_S3_ALLOW_UNSAFE_RENAME", "AWS_CONDITIONAL_PUT", "AWS_ALLOW_HTTP", "timeout", "AZURE_STORAGE_ACCOUNT_NAME"],
)
def test_options_about_how_deltalake_works_are_left_out(name):
    assert hadoop_settings({name: "x"}) == {}


def test_every_secret_has_a_name_that_spark_masks():
    """Its UI and its event log hide settings by their names."""
    from airflow_backfill_provider.applications.spark_settings import spark_conf

    redacted = re.compile(spark_conf("local")["spark.redaction.regex"])
    options = [
        S3 | {"AWS_SSE_CUSTOMER_KEY_BASE64": "very-secret"},
        {"AZURE_STORAGE_ACCOUNT_KEY": "very-secret"},
        {"AZURE_STORAGE_SAS_TOKEN": "very-secret"},
        {"AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "very-secret", "AZURE_TENANT_ID": "t"},
    ]
    secrets = [name for given in options for name, value in hadoop_settings(given).items() if value == "very-secret"]
    assert len(secrets) == 5
    assert [name for name in secrets if not redacted.search(name)] == []


def test_the_page_names_every_option_that_is_translated():
    source = (Path(__file__).parents[4] / "airflow_backfill_provider" / "lake" / "store" / "object_store.py").read_text(
        encoding="utf-8"
    )
    page = (Path(__file__).parents[4] / "docs" / "how-to" / "use-an-object-store.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r'"((?:AWS|AZURE|GOOGLE)_\w+)"', source) if f"`{name}`" not in page] == []


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("AWS_SECRET_ACCESS_KEY", True),
        ("azure_storage_sas_token", True),
        ("AZURE_STORAGE_SAS", True),
        ("GOOGLE_APPLICATION_CREDENTIALS", True),
        ("GOOGLE_SERVICE_ACCOUNT", True),
        ("AZURE_PASSWORD", True),
        ("AWS_REGION", False),
        ("AWS_FORCE_CREDENTIAL_LOAD", False),
        ("timeout", False),
    ],
)
def test_which_options_hold_secrets(name, secret):
    assert is_secret(name) is secret


def test_secrets_are_removed_from_a_text_also_if_they_are_url_encoded():
    options = {"AZURE_STORAGE_SAS_TOKEN": "sig=a/b+c", "AZURE_STORAGE_ACCOUNT_NAME": "lake", "AWS_TOKEN": ""}
    assert without_secrets("lake: sig=a/b+c, ?sig%3Da%2Fb%2Bc", options) == "lake: ***, ?***"


def test_a_secret_that_begins_with_another_one_is_removed_whole():
    options = {"AWS_SECRET_ACCESS_KEY": "hush", "AWS_SESSION_TOKEN": "hush-hush"}
    assert without_secrets("as hush-hush and hush", options) == "as *** and ***"


def test_an_option_without_a_value_is_not_given():
    options = {"AWS_ENDPOINT_URL_S3": "", "AWS_ENDPOINT_URL": "http://minio:9000", "AZURE_STORAGE_TOKEN": ""}
    assert hadoop_settings(options)["fs.s3a.endpoint"] == "http://minio:9000"


@pytest.mark.parametrize("on", ["true", "1", "yes", "ON"])
def test_a_switch_may_be_written_in_any_way_that_deltalake_takes(on):
    options = {"AWS_ENDPOINT_URL": "http://minio:9000", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": on}
    assert hadoop_settings(options)["fs.s3a.path.style.access"] == "false"


def test_the_narrower_of_two_names_of_an_option_counts():
    options = {"AWS_ENDPOINT_URL": "http://of-all-services", "AWS_ENDPOINT_URL_S3": "http://of-this-one"}
    assert hadoop_settings(options)["fs.s3a.endpoint"] == "http://of-this-one"
    assert hadoop_settings({"AWS_TOKEN": "token"}) == {"fs.s3a.session.token": "token"}


def test_a_signature_that_is_given_is_used_although_there_is_an_account_key():
    options = {"AZURE_STORAGE_SAS_TOKEN": "sig=x", "AZURE_STORAGE_ACCOUNT_KEY": "k"}
    assert hadoop_settings(options) == {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": "sig=x"}


def test_a_bucket_has_settings_of_its_own():
    options = S3 | {"bucket.raw.AWS_ACCESS_KEY_ID": "AKIB", "bucket.raw.AWS_SECRET_ACCESS_KEY": "of raw"}
    general = hadoop_settings(S3)
    assert hadoop_settings(options) == general | {
        "fs.s3a.bucket.raw.access.key": "AKIB",
        "fs.s3a.bucket.raw.secret.key": "of raw",
        # Otherwise S3A would send the general token with the bucket's keys.
        "fs.s3a.bucket.raw.session.token": "",
    }


def test_a_bucket_has_keys_where_others_are_public():
    options = {"AWS_SKIP_SIGNATURE": "true", "bucket.raw.AWS_ACCESS_KEY_ID": "AKIB"}
    settings = hadoop_settings(options)
    assert settings["fs.s3a.aws.credentials.provider"].endswith(".AnonymousAWSCredentialsProvider")
    assert settings["fs.s3a.bucket.raw.aws.credentials.provider"].endswith(".SimpleAWSCredentialsProvider")


def test_a_public_bucket_beside_others():
    settings = hadoop_settings(S3 | {"bucket.open.AWS_SKIP_SIGNATURE": "true"})
    assert settings["fs.s3a.bucket.open.aws.credentials.provider"].endswith(".AnonymousAWSCredentialsProvider")
    assert settings["fs.s3a.bucket.open.access.key"] == ""


def test_a_credential_of_a_bucket_without_a_counterpart_is_refused():
    with pytest.raises(StorageOptionsError, match="AWS_CONTAINER_AUTHORIZATION_TOKEN"):
        hadoop_settings({"bucket.raw.AWS_CONTAINER_AUTHORIZATION_TOKEN": "very-secret"})


def test_the_name_of_a_bucket_makes_no_secret():
    assert not is_secret("bucket.keys-and-tokens.AWS_REGION")
    assert is_secret("bucket.raw.AWS_SECRET_ACCESS_KEY")
