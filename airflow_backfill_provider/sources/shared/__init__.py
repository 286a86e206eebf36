"""What several kinds of sources are made of."""
