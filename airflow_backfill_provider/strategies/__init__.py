"""How history is read: the kinds of strategy, and the choice between them."""
