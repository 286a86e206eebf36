"""Delta tables whose rows are events, each about a key: of a key, the last event tells what its row is."""
