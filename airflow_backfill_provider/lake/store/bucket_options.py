"""
Options of an object store that hold for one bucket only, such as the credentials of another account.

They have the names of S3A's per-bucket settings: ``bucket.raw.AWS_REGION`` is the region of the bucket ``raw``. All
options of a job travel together, and only where a library opens a location, those of its bucket are taken out.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import StorageOptionsError

_OF_BUCKET = re.compile(r"bucket\.(?P<bucket>[a-z0-9][a-z0-9.-]+)\.(?P<option>[A-Za-z0-9_]+)")
_PREFIX = "bucket."
_S3 = "AWS_"
_SCHEMES = frozenset({"s3", "s3a"})

_TOGETHER = (
    frozenset(
        {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN", "AWS_SKIP_SIGNATURE"}
        | {"AWS_FORCE_CREDENTIAL_LOAD"}
    ),
    frozenset({"AWS_REGION", "AWS_DEFAULT_REGION"}),
    frozenset({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"}),
    frozenset({"AWS_SERVER_SIDE_ENCRYPTION", "AWS_SSE_KMS_KEY_ID", "AWS_SSE_CUSTOMER_KEY_BASE64"}),
)
"""Options that mean something together. If a bucket has one of them, no general one of the same set holds for it."""


@dataclass(frozen=True, slots=True)
class BucketOption:
    """
    The name of an option of one bucket.

    :param bucket: the bucket.
    :param option: the option, as deltalake calls it.
    """

    bucket: str
    option: str

    @classmethod
    def of(cls, name: str) -> BucketOption | None:
        """
        Return the bucket and the option of a name; ``None`` if it is the name of a general option.

        :raises StorageOptionsError: if it begins like that of a bucket's option, and is none.
        """
        if not name.startswith(_PREFIX):
            return None
        found = _OF_BUCKET.fullmatch(name)
        if found is None or not found["option"].upper().startswith(_S3):
            raise StorageOptionsError(
                f"storage option {name}: an option of one bucket is written bucket.<name of the bucket>.AWS_…, such as "
                "bucket.raw.AWS_REGION; only S3 has them"
            )
        return cls(found["bucket"], found["option"])


def options_of(location: str, options: Mapping[str, str] | None) -> dict[str, str] | None:
    """
    Return the options for one location: those of its bucket, and the general ones that they do not replace.

    :param location: a canonical location.
    :param options: all options, as deltalake takes them, and those of buckets; or what this function has returned for
        the same bucket.
    :returns: the options, as deltalake takes them; ``None`` if there are none.
    :raises StorageOptionsError: if the name of an option is not valid.
    """
    url = urllib.parse.urlsplit(location)
    return options_of_bucket(url.netloc if url.scheme in _SCHEMES else "", options or {}) or None


def options_of_bucket(bucket: str, options: Mapping[str, str]) -> dict[str, str]:
    """
    Return the options for one bucket, as :func:`options_of`.

    :param bucket: the bucket; empty for the options that hold without one.
    """
    general: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, value in options.items():
        found = BucketOption.of(name)
        if found is None:
            general[name] = value
        elif found.bucket == bucket:
            own[found.option] = value
    own_names = {name.upper() for name in own}
    replaced = own_names.union(*(names for names in _TOGETHER if names & own_names))
    return {name: value for name, value in general.items() if name.upper() not in replaced} | own


def buckets_of(options: Mapping[str, str]) -> list[str]:
    """
    Return the buckets that have options of their own.

    :raises StorageOptionsError: if the name of an option is not valid.
    """
    return sorted({found.bucket for name in options if (found := BucketOption.of(name)) is not None})
