"""Functions that read and write formats open no file, no address and no definition."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.row.query import check_query

_METADATA = (
    '{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,"metadata":{"EXISTS_DEFAULT":"1"}}]}'
)
_ESCAPED = _METADATA.replace("metadata", r"meta\\u0064ata")
_TWICE = _METADATA.replace('"metadata":', '"metadata":{},"metadata":')[:-3] + ',"metadata":{}}]}'
_PLAIN = _METADATA.replace('"EXISTS_DEFAULT":"1"', '"comment":"what we sell"')


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("from_avro(a, '\"int\"', map('avroSchemaUrl', '/etc/passwd'))", "'avroSchemaUrl', which is not known to be"),
        ("from_avro(a, '\"int\"', map('mode', 'FAILFAST', 'AVROSCHEMAURL', 'http://x'))", "'AVROSCHEMAURL'"),
        ("from_avro(a, '\"int\"', map(r'avroSchemaUrl', 'http://x'))", "'avroSchemaUrl'"),
        ("from_avro(a, '\"int\"', map('avro' || 'SchemaUrl', 'http://x'))", "not plain texts"),
        ("from_avro(a, '\"int\"', map('avro' 'SchemaUrl', 'http://x'))", "not plain texts"),
        (r"from_avro(a, '\"int\"', map('avroSchema\u0055rl', 'http://x'))", "not known to be safe"),
        ("from_avro(a, '\"int\"', map(concat('avro', 'SchemaUrl'), 'http://x'))", "not plain texts"),
        ("from_avro(a, '\"int\"', str_to_map('avroSchemaUrl:x'))", "in another form than map"),
        ("from_avro(a, '\"int\"', map_from_arrays(array('avroSchemaUrl'), array('x')))", "in another form than map"),
        ("from_avro(a, '\"int\"', map('mode', 'x') || map('avroSchemaUrl', 'x'))", "in another form than map"),
        ("from_avro(a, '\"int\"', `map`('avroSchemaUrl', 'x'))", "not known to be safe"),
        ("system.builtin.from_avro(a, '\"int\"', map('avroSchemaUrl', 'x'))", "not known to be safe"),
        ("`from_avro`(a, '\"int\"', map('avroSchemaUrl', 'x'))", "not known to be safe"),
        ("schema_of_avro('\"int\"', map('avroSchemaUrl', '/etc/passwd'))", "not known to be safe"),
        ("from_xml(a, 'b STRING', map('rowValidationXSDPath', '/etc/passwd'))", "'rowValidationXSDPath'"),
        ("to_xml(s, map('rowValidationXSDPath', '/etc/passwd'))", "'rowValidationXSDPath'"),
        ("schema_of_xml('<a/>', map('rowValidationXSDPath', '/etc/passwd'))", "'rowValidationXSDPath'"),
        ("transform(items, i -> from_xml(i, 'b INT', map('rowValidationXSDPath', 'x')))", "'rowValidationXSDPath'"),
        ("from_json(a, 'b INT', map('path', 'x'))", "'path'"),
        ("from_csv(a, 'b INT', map(name, 'x'))", "not plain texts"),
        ("from_csv(a, 'b INT', map('sep', value))", "not plain texts"),
        ("from_protobuf(a, 'Message', '/etc/passwd')", "without the bytes of a descriptor"),
        ("from_protobuf(a, 'Message', '/etc/passwd', map('mode', 'FAILFAST'))", "without the bytes of a descriptor"),
        ("from_protobuf(a, 'java.lang.Runtime')", "without the bytes of a descriptor"),
        ("from_protobuf(a, 'java.lang.Runtime', map('mode', 'FAILFAST'))", "without the bytes of a descriptor"),
        ("to_protobuf(s, 'Message', concat('/etc', '/passwd'))", "without the bytes of a descriptor"),
        ("from_protobuf(a, 'M', X'0a', map('x', 'y'))", "not known to be safe"),
        (f"from_json(a, '{_METADATA}')", "more than names and types"),
        (rf"from_json(a, '\u007b{_METADATA[1:]}')", "more than names and types"),
        ("from_json(a, '{\"type\":')", "more than names and types"),
        (f"from_json(a, '{_ESCAPED}')", "more than names and types"),
        (f"from_json(a, '{_TWICE}')", "more than names and types"),
        ("from_json(a, concat('{', '}'))", "a schema that is not a plain text"),
        ("from_json(a, schema_of_json('{}') || '')", "a schema that is not a plain text"),
        ("from_csv(a, upper('b int'))", "a schema that is not a plain text"),
    ],
)
def test_an_argument_that_may_open_something_is_refused(call: str, said: str) -> None:
    with pytest.raises(InvalidJobError) as caught:
        check_query(f"SELECT id, {call} AS x FROM upstream")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        "from_json(a, 'b INT, c DECIMAL(12,2)', map('timestampFormat', 'yyyy', 'mode', 'FAILFAST'))",
        "from_json(a, 'b INT, ' 'c STRING COMMENT \\'that is it\\'')",
        f"from_json(a, '{_PLAIN}')",
        "from_json(a, schema_of_json('{\"b\": [1, (2)]}', map('allowNumericLeadingZeros', 'true')))",
        "from_csv(a, 'b INT', map('SEP', ';'))",
        "to_json(struct(a, b), map('pretty', 'true', 'ignoreNullFields', \"false\"))",
        "to_csv(s, map())",
        "from_xml(a, 'b STRUCT<c: INT>', map('rowTag', 'r'))",
        "from_avro(a, '{\"type\": \"int\"}', map('mode', 'PERMISSIVE'))",
        "from_avro(a, '\"int\"')",
        "to_avro(s)",
        "to_avro(s, '\"int\"')",
        "from_protobuf(a, 'Message', X'0a0b', map('mode', 'FAILFAST'))",
        "to_protobuf(s, 'Message', X'0a0b')",
        "map('avroSchemaUrl', a)",
    ],
)
def test_arguments_that_open_nothing_are_accepted(call: str) -> None:
    check_query(f"SELECT id, {call} AS x FROM upstream")
