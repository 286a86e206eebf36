"""Where deletion vectors lie."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.lake.files.deletion_vectors import vector_file

# The example of Delta's protocol.
NAMED = "ab^-aqEH.-t@S}K{vb[*k^"


@pytest.mark.parametrize(
    ("storage", "text", "file"),
    [
        ("u", NAMED, "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", NAMED[2:], "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("p", "s3://lake/elsewhere.bin", None),
        ("i", "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", None),
    ],
)
def test_the_file_of_a_vector(storage, text, file):
    assert vector_file({"storageType": storage, "pathOrInlineDv": text}) == file
