"""Delta tables as a whole: identity, properties, what is left of them."""
