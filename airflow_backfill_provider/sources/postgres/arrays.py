"""Arrays as PostgreSQL writes them, such as ``{1,NULL,"a, b"}``, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def array_as_json(text: str) -> str:
    """
    Return an array as a JSON list of texts and nulls; of lists, if it has several dimensions.

    :raises ValueError: if the text is not an array, or its indexes do not begin with 1.
    """
    characters = iter(text)
    if next(characters, "") != "{":
        raise ValueError("an array does not begin with a brace, so its indexes do not begin with 1")
    found = _elements(characters)
    if next(characters, None) is not None:
        raise ValueError("an array does not end with its last brace")
    # Without blanks, as the server's array_to_json writes it: a column may be read as this text.
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _elements(characters: Iterator[str]) -> list[Any]:
    """Return the elements up to the closing brace."""
    found: list[Any] = []
    element: list[str] = []
    quoted = nested = False
    for character in characters:
        if character == "{":
            found.append(_elements(characters))
            nested = True
        elif character == '"':
            element += _quoted(characters)
            quoted = True
        elif character in ",}":
            if element or quoted:
                text = "".join(element)
                found.append(None if text == "NULL" and not quoted else text)
            elif not nested and (found or character == ","):
                raise ValueError("an element of an array is empty")
            element, quoted, nested = [], False, False
            if character == "}":
                return found
        elif character == "\\":
            element.append(next(characters, ""))
        else:
            element.append(character)
    raise ValueError("an array does not end with a brace")


def _quoted(characters: Iterator[str]) -> Iterator[str]:
    """Yield the characters up to the closing quote."""
    for character in characters:
        if character == '"':
            return
        yield next(characters, "") if character == "\\" else character
    raise ValueError("a quoted element of an array does not end")
