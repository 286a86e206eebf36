"""The fault campaigns: they cause every known kind of fault thousands of times, and check each outcome."""
