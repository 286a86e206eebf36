"""Names of the columns that this package puts beside those of the upstream."""

VNODE = "__vnode"
"""The row's vnode."""

EPOCH = "__epoch"
"""The epoch that appended the row to the arrangement."""

IS_UPSERT = "__is_upsert"
"""Of a net change: whether the key has a row afterwards."""

APPEARED = "__appeared"
"""Of a net change: whether the key had no row before."""

RESERVED = frozenset({VNODE, EPOCH, IS_UPSERT, APPEARED})
