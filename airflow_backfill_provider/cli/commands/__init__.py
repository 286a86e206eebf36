"""The commands by purpose: look, work, mutate, and set up."""
