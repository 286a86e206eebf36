"""What the reference says of the mappings in a job's definition, apart from its upstreams."""

from __future__ import annotations

ADOPTION_FIELDS = {
    "path": (
        "absolute path or URI",
        "its location: the view's own to adopt it in place, or another one",
    ),
    "version": ("whole number, from 0", "its version; in place, that must be the newest"),
    "sample": (
        "whole number, 1 to `vnode_count`",
        "how many vnodes are compared with the query before the table is adopted",
    ),
    "repair": (
        "true or false",
        "whether the first epoch repairs what differs; otherwise a table that differs is refused",
    ),
}

ADOPTION_DEFAULTS = {"version": "the newest", "sample": "all"}

RESTRICTION_FIELDS = {
    "vnodes": ("list of numbers and ranges", "the vnodes that the view is about, such as `[0-15, 20]`"),
    "keys": ("mapping, see below", "a range of keys"),
}

RESTRICTION_DEFAULTS = {"vnodes": "all", "keys": "all"}

BOUNDS_FIELDS = {
    "after": ("list of values", "exclusive lower bound: a value for each key column, or for the leading ones"),
    "up_to": ("list of values", "inclusive upper bound likewise"),
}

BOUNDS_DEFAULTS = {"after": "from the first key", "up_to": "to the last key"}
