"""The commands, by what they are for: look, work, change."""
