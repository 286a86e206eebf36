"""
How the bytes of a record become a column: a record of Kafka has bytes only, and its job says what they mean.

A job's definition names a format (``definition``). When the job is created, the format is resolved (``resolved``): what
lies outside of the definition, such as a schema in a registry, becomes part of the job. Epochs decode records on Spark
(``spark``) by the resolved format alone, so every attempt reads the same values.

A record that its format does not fit is unreadable, and an error says why. A value never becomes null silently.
"""
