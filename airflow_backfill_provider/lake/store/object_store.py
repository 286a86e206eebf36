"""
Translates the options of an object store for both readers of the tables, deltalake and Spark.

Users write them once, under deltalake's names. Spark reads the same tables through Hadoop, whose connectors have other
names: S3A for Amazon, ABFS for Azure, the GCS connector for Google.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping

from airflow_backfill_provider.core.errors import StorageOptionsError
from airflow_backfill_provider.core.site import page
from airflow_backfill_provider.lake.store.bucket_options import buckets_of, options_of_bucket

_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|CREDENTIAL|SAS|SERVICE_ACCOUNT", re.IGNORECASE)
_SWITCHES = frozenset({"AWS_SSE_BUCKET_KEY_ENABLED", "AWS_FORCE_CREDENTIAL_LOAD"})

_ENCRYPTION = {"aes256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS", "sse-c": "SSE-C"}
_ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
_WITH_KEYS = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
)
_S3A = "fs.s3a."
_PROVIDER = f"{_S3A}aws.credentials.provider"
_CLIENT_CREDENTIALS = "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider"
_LOGIN = "https://login.microsoftonline.com"


def is_secret(name: str) -> bool:
    """Tell whether an option may hold a secret, by its name; that of a bucket does not count."""
    option = name.rpartition(".")[2]
    return option.upper() not in _SWITCHES and bool(_SECRET.search(option))


def without_secrets(text: str, options: Mapping[str, str]) -> str:
    """Return a text with the options' secret values masked, also if they are URL-encoded."""
    secrets = {value for name, value in options.items() if is_secret(name) and value}
    for secret in sorted(secrets, key=len, reverse=True):
        for encoded in (secret, urllib.parse.quote(secret, safe="")):
            text = text.replace(encoded, "***")
    return text


def hadoop_settings(options: Mapping[str, str]) -> dict[str, str]:
    """
    Return the Hadoop settings that mean the same as deltalake's options.

    An option without a counterpart is left out: it only concerns how deltalake reads or commits.

    :param options: options of the object store, as deltalake takes them, and those of single buckets.
    :raises StorageOptionsError: if a credential has no counterpart, because Spark would use another one, or none; or if
        the name of a bucket's option is not valid.
    """
    general = _settings(options_of_bucket("", options))
    settings = {name: value for name, value in general.items() if value is not None}
    for bucket in buckets_of(options):
        settings |= _of_bucket(bucket, _settings(options_of_bucket(bucket, options)), general)
    return settings


def _of_bucket(bucket: str, settings: Mapping[str, str | None], general: Mapping[str, str | None]) -> dict[str, str]:
    """Return S3A's settings for one bucket, where they differ from the general ones."""
    # Without a setting of its own, a bucket has the general one; an empty one stands for none.
    none = {_PROVIDER: _WITH_KEYS}
    return {
        name.replace(_S3A, f"{_S3A}bucket.{bucket}.", 1): value or none.get(name, "")
        for name, value in settings.items()
        if name.startswith(_S3A) and value != general[name]
    }


def _settings(options: Mapping[str, str]) -> dict[str, str | None]:
    """
    Return the Hadoop settings for one set of options.

    :raises StorageOptionsError: as :func:`hadoop_settings`.
    """
    given = _Options(options)
    settings = {**_s3(given), **_azure(given), **_google(given)}
    untranslated = sorted(name for name in given.unused if is_secret(name))
    if untranslated:
        raise StorageOptionsError(
            f"storage option {', '.join(untranslated)} has no counterpart in Hadoop, so Spark cannot use it; choose a "
            f"kind of credential that both support ({page('how-to/use-an-object-store')}), or leave it out here and "
            "configure deltalake and Spark separately"
        )
    return settings


class _Options:
    """Options by their upper-case names; records which were used."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.upper(): value for name, value in options.items() if value}
        self.unused = set(self._values)

    def get(self, *names: str) -> str | None:
        """Return the value under the first of an option's names that is given."""
        self.unused.difference_update(names)
        return next((self._values[name] for name in names if name in self._values), None)

    def on(self, *names: str) -> bool:
        """Tell whether a switch is on."""
        return (self.get(*names) or "").lower() in {"true", "1", "yes", "on"}


def _s3(given: _Options) -> dict[str, str | None]:
    endpoint = given.get("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    virtual_hosted = given.on("AWS_VIRTUAL_HOSTED_STYLE_REQUEST")
    encryption = given.get("AWS_SERVER_SIDE_ENCRYPTION")
    return {
        "fs.s3a.access.key": given.get("AWS_ACCESS_KEY_ID"),
        "fs.s3a.secret.key": given.get("AWS_SECRET_ACCESS_KEY"),
        "fs.s3a.session.token": given.get("AWS_SESSION_TOKEN", "AWS_TOKEN"),
        _PROVIDER: _ANONYMOUS if given.on("AWS_SKIP_SIGNATURE") else None,
        "fs.s3a.endpoint.region": given.get("AWS_REGION", "AWS_DEFAULT_REGION"),
        "fs.s3a.endpoint": endpoint,
        # By default, deltalake puts the bucket into the path, and S3A puts it into the host name.
        "fs.s3a.path.style.access": str(not virtual_hosted).lower() if endpoint else None,
        "fs.s3a.encryption.algorithm": _ENCRYPTION.get(encryption.lower()) if encryption else None,
        "fs.s3a.encryption.key": given.get("AWS_SSE_KMS_KEY_ID", "AWS_SSE_CUSTOMER_KEY_BASE64"),
    }


def _azure(given: _Options) -> dict[str, str | None]:
    account_key = given.get(
        "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY", "AZURE_ACCOUNT_KEY"
    )
    client = given.get("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID")
    secret = given.get("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET")
    tenant = given.get("AZURE_STORAGE_TENANT_ID", "AZURE_STORAGE_AUTHORITY_ID", "AZURE_TENANT_ID", "AZURE_AUTHORITY_ID")
    sas = given.get("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")
    if client and secret and tenant:
        return {
            "fs.azure.account.auth.type": "OAuth",
            "fs.azure.account.oauth.provider.type": _CLIENT_CREDENTIALS,
            "fs.azure.account.oauth2.client.id": client,
            "fs.azure.account.oauth2.client.secret": secret,
            "fs.azure.account.oauth2.client.endpoint": f"{_LOGIN}/{tenant}/oauth2/token",
        }
    if secret:
        raise StorageOptionsError(
            "storage option AZURE_STORAGE_CLIENT_SECRET needs AZURE_STORAGE_CLIENT_ID and AZURE_STORAGE_TENANT_ID; "
            "add them, or leave it out"
        )
    if sas:
        return {"fs.azure.account.auth.type": "SAS", "fs.azure.sas.fixed.token": sas}
    return {"fs.azure.account.key": account_key}


def _google(given: _Options) -> dict[str, str | None]:
    key_file = given.get("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_APPLICATION_CREDENTIALS")
    return {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE" if key_file else None,
        "fs.gs.auth.service.account.json.keyfile": key_file,
    }
