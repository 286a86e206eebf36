"""Arrays as PostgreSQL writes them; random ones are in ``tests/property/test_postgres_arrays.py``."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.sources.postgres.arrays import array_as_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", []),
        ("{1,2,-3}", ["1", "2", "-3"]),
        ("{NULL}", [None]),
        ('{"NULL"}', ["NULL"]),
        ("{NULLS,null}", ["NULLS", "null"]),
        ('{a,NULL,"a, b"}', ["a", None, "a, b"]),
        ('{""}', [""]),
        ('{"",""}', ["", ""]),
        ('{"{}","}","{"}', ["{}", "}", "{"]),
        (r'{"\"","\\","\\\"a"}', ['"', "\\", '\\"a']),
        (r"{a\,b}", ["a,b"]),
        ('{" a ","\t\n"}', [" a ", "\t\n"]),
        ("{ä,€,😀}", ["ä", "€", "😀"]),
        ("{{1,2},{3,NULL}}", [["1", "2"], ["3", None]]),
        ('{{{"a,b"},{c}}}', [[["a,b"], ["c"]]]),
        ('{2024-01-01,"2024-01-01 00:00:00+00"}', ["2024-01-01", "2024-01-01 00:00:00+00"]),
    ],
)
def test_an_array_becomes_a_list_of_texts_and_nulls(text, expected):
    assert json.loads(array_as_json(text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{ä,NULL,2}", '["ä",null,"2"]'),
        ("{{a},{b}}", '[["a"],["b"]]'),
        ('{"a\\\\\n\x1f\x7f/"}', r'["a\\\n\u001f' + '\x7f/"]'),
    ],
)
def test_the_text_is_the_one_that_the_server_writes(text, expected):
    """As ``array_to_json`` does: a column that is read as text has one text, from the log and from the table."""
    assert array_as_json(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with a brace"),
        ("1", "does not begin with a brace"),
        ("[0:1]={1,2}", "its indexes do not begin with 1"),
        ("{", "does not end with a brace"),
        ("{1", "does not end with a brace"),
        ("{{1}", "does not end with a brace"),
        ('{"1', "quoted element of an array does not end"),
        ('{"1}', "quoted element of an array does not end"),
        ("{1}}", "does not end with its last brace"),
        ("{1} ", "does not end with its last brace"),
        ("{,}", "element of an array is empty"),
        ("{1,}", "element of an array is empty"),
        ("{,1}", "element of an array is empty"),
        ("{1,,2}", "element of an array is empty"),
        ("{{1},}", "element of an array is empty"),
        ("{{1},,{2}}", "element of an array is empty"),
    ],
)
def test_what_is_no_array_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        array_as_json(text)


def test_a_refusal_does_not_quote_the_value():
    with pytest.raises(ValueError, match="array") as refused:
        array_as_json("{secret,,}")
    assert "secret" not in str(refused.value)
