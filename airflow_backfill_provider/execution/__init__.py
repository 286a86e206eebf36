"""One epoch on Spark: combine source, strategy and shape, and implement the engine of the protocol."""
