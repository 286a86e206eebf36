"""A job from its creation to its end, and what is done with it besides its epochs."""
