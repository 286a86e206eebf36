"""The columns of a topic's records, and their types as Delta writes them."""

from __future__ import annotations

import json

_HEADERS = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
    "containsNull": True,
}

RECORD_TYPES = {
    "key": "binary",
    "value": "binary",
    "headers": json.dumps(_HEADERS),
    "topic": "string",
    "partition": "integer",
    "offset": "long",
    "timestamp": "timestamp",
}
"""Column → its type."""
