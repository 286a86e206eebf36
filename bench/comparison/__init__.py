"""Compare this package with a plain copy and with the usual alternatives: ``make bench ARGS=comparison``."""
