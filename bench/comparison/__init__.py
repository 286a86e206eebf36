"""The comparison with a plain copy and with what people write otherwise: ``make bench ARGS=comparison``."""
