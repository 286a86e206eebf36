"""The order in which rows are read: keys, vnodes, offsets, statistics, and the next chunk that follows from them."""
