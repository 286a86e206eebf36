"""A job: its definition, its settings, and what is refused."""
