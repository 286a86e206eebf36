"""
The arguments of functions that can do more than compute a value.

Functions that read or write a format take options, a schema or a descriptor. Some of these name a file or an address
that Spark opens, and a schema in JSON may hold SQL that Spark evaluates. So such a function may have only the options
on its list, written as plain texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_SCHEMA_FUNCTIONS = frozenset({"schema_of_csv", "schema_of_json", "schema_of_xml"})
_HARMLESS_METADATA = frozenset({"comment"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatFunction:
    """
    A function that takes options.

    :param options_at: the position of the options among the arguments.
    :param options: the options that it may have, in lower case.
    :param schema_at: the position of a schema of Spark, if it takes one.
    :param descriptor_at: the position of a descriptor, which may also be the path of a file, if it takes one.
    """

    options_at: int
    options: frozenset[str]
    schema_at: int | None = None
    descriptor_at: int | None = None


_TIMES = "dateformat enabledatetimeparsingfallback locale timeformat timestampformat timestampntzformat timezone "
_PARSED = "columnnameofcorruptrecord mode samplingratio singlevariantcolumn "

_JSON = frozenset(
    f"""{_TIMES} {_PARSED} allowbackslashescapinganycharacter allowcomments allownonnumericnumbers
    allownumericleadingzeros allowsinglequotes allowunquotedcontrolchars allowunquotedfieldnames charset
    dropfieldifallnull encoding ignorenullfields infertimestamp linesep maxnestingdepth maxnumlen maxstringlen multiline
    prefersdecimal pretty primitivesasstring writenonasciicharacterascodepoint""".split()
)
_CSV = frozenset(
    f"""{_TIMES} {_PARSED} charset chartoescapequoteescaping columnpruning comment delimiter emptyvalue encoding
    enforceschema escape escapequotes header ignoreleadingwhitespace ignoretrailingwhitespace inferschema
    inputbuffersize linesep maxcharspercolumn maxcolumns multiline nanvalue negativeinf nullvalue positiveinf preferdate
    quote quoteall sep unescapedquotehandling""".split()
)
_XML = frozenset(
    f"""{_TIMES} {_PARSED} arrayelementname attributeprefix charset declaration encoding excludeattribute
    ignorenamespace ignoresurroundingspaces inferschema nullvalue prefersdecimal roottag rowtag
    treatemptyvaluesasnulls validatename valuetag wildcardcolname""".split()
)
_AVRO = frozenset(
    """avroschema datetimerebasemode enablestableidentifiersforuniontype mode positionalfieldmatching
    recursivefieldmaxdepth stableidentifierprefixforuniontype""".split()
)
_PROTOBUF = frozenset(
    """convert.any.fields.to.json emit.default.values enums.as.ints mode recursive.fields.max.depth
    retain.empty.message.types unwrap.primitive.wrapper.types upcast.unsigned.ints""".split()
)

FORMAT_FUNCTIONS: Mapping[str, FormatFunction] = {
    "from_csv": FormatFunction(options_at=2, options=_CSV, schema_at=1),
    "to_csv": FormatFunction(options_at=1, options=_CSV),
    "schema_of_csv": FormatFunction(options_at=1, options=_CSV),
    "from_json": FormatFunction(options_at=2, options=_JSON, schema_at=1),
    "to_json": FormatFunction(options_at=1, options=_JSON),
    "schema_of_json": FormatFunction(options_at=1, options=_JSON),
    "from_xml": FormatFunction(options_at=2, options=_XML, schema_at=1),
    "to_xml": FormatFunction(options_at=1, options=_XML),
    "schema_of_xml": FormatFunction(options_at=1, options=_XML),
    "from_avro": FormatFunction(options_at=2, options=_AVRO),
    "schema_of_avro": FormatFunction(options_at=1, options=_AVRO),
    "from_protobuf": FormatFunction(options_at=3, options=_PROTOBUF, descriptor_at=2),
    "to_protobuf": FormatFunction(options_at=3, options=_PROTOBUF, descriptor_at=2),
}
"""The functions that take options, and the options that open nothing."""


def refuse_other_arguments(function: str, tokens: Sequence[Token], opening: int) -> None:
    """
    Refuse a call whose arguments may name a file, an address or a definition that Spark looks up.

    :param function: the function's name, in lower case.
    :param tokens: the query's tokens.
    :param opening: the index of the parenthesis that opens the call's arguments.
    :raises InvalidJobError: with the function and the argument.
    """
    known = FORMAT_FUNCTIONS.get(function)
    if known is None:
        return
    arguments = list(_arguments(tokens, opening))
    if known.descriptor_at is not None:
        _require_descriptor(function, arguments[known.descriptor_at : known.descriptor_at + 1])
    if known.schema_at is not None and len(arguments) > known.schema_at:
        _require_schema(function, arguments[known.schema_at])
    if len(arguments) > known.options_at:
        _require_options(function, known, arguments[known.options_at])


def _arguments(tokens: Sequence[Token], opening: int) -> Iterator[list[Token]]:
    """Yield the arguments of a call; without any, an empty one."""
    depth, argument = 0, list[Token]()
    for token in tokens[opening:]:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0:
            break
        if depth == 1 and token.token_type == TokenType.COMMA:
            yield argument
            argument = []
        elif depth > 1 or token.token_type not in _OPENING:
            argument.append(token)
    yield argument


def _require_options(function: str, known: FormatFunction, argument: Sequence[Token]) -> None:
    """Refuse options other than ``map('name', 'value', …)`` with names from the list."""
    is_map = [token.text.lower() for token in argument[:2]] == ["map", "("] and argument[
        0
    ].token_type != TokenType.STRING
    pairs = list(_arguments(argument, 1)) if is_map else []
    if not is_map or _end(argument) != len(argument) or (pairs != [[]] and len(pairs) % 2):
        raise InvalidJobError(f"the query calls {function} with options in another form than map('name', 'value', …)")
    for name, value in zip(pairs[::2], pairs[1::2], strict=False):
        if [token.token_type for token in (*name, *value)] != [TokenType.STRING] * 2 or len(name) != 1:
            raise InvalidJobError(
                f"the query calls {function} with options that are not plain texts; write them as "
                "map('name', 'value', …)"
            )
        if name[0].text.strip().lower() not in known.options:
            raise InvalidJobError(
                f"the query calls {function} with the option {name[0].text!r}, which is not known to be safe: options "
                f"may open files and addresses; allowed are {', '.join(sorted(known.options))}"
            )


def _require_schema(function: str, argument: Sequence[Token]) -> None:
    """Refuse a schema that is not a plain text, and one in JSON with more than names and types."""
    if {token.token_type for token in argument} == {TokenType.STRING}:
        text = "".join(token.text for token in argument)
        if _has_definitions(text):
            raise InvalidJobError(
                f"the query calls {function} with a schema that has more than names and types, such as a default "
                "value; remove it"
            )
    elif [token.text.lower() for token in argument[:1]] != [*_SCHEMA_FUNCTIONS.intersection(_first_word(argument))]:
        raise InvalidJobError(
            f"the query calls {function} with a schema that is not a plain text; write it as 'name TYPE, …'"
        )


def _first_word(argument: Sequence[Token]) -> list[str]:
    """Return the function of an argument that is one call, and nothing else."""
    is_call = len(argument) > 1 and argument[1].token_type == TokenType.L_PAREN
    return [argument[0].text.lower()] if is_call and _end(argument) == len(argument) else []


def _end(call: Sequence[Token]) -> int:
    """Return the index after the parenthesis that closes a call at the beginning of some tokens."""
    depth = 0
    for index, token in enumerate(call[1:], start=1):
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0:
            return index + 1
    return len(call)


def _has_definitions(schema: str) -> bool:
    """Return whether a schema in JSON has metadata: Spark evaluates some of it as SQL."""
    if not schema.strip().startswith(("{", '"', "[")):
        return False
    try:
        # Pairs and no dictionary, because two readers may choose another one of two equal names.
        return _has_metadata(json.loads(schema, object_pairs_hook=list))
    except (ValueError, RecursionError):
        return True


def _has_metadata(value: Any) -> bool:
    """Return whether some metadata has more than a comment; an object of JSON is a list of pairs here."""
    if isinstance(value, tuple):
        name, inside = value
        if name == "metadata":
            return not (isinstance(inside, list) and {key for key, _ in inside} <= _HARMLESS_METADATA)
        return _has_metadata(inside)
    return isinstance(value, list) and any(map(_has_metadata, value))


def _require_descriptor(function: str, argument: Sequence[Sequence[Token]]) -> None:
    """Refuse a call without the bytes of a descriptor: a text is a file's path, and without one Spark loads a class."""
    if [[token.token_type for token in found] for found in argument] != [[TokenType.HEX_STRING]]:
        raise InvalidJobError(
            f"the query calls {function} without the bytes of a descriptor, so Spark would open a file or load a "
            "class; write the descriptor as X'…'"
        )
