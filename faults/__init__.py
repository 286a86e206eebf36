"""The fault campaign: what can go wrong is made to go wrong, thousands of times, and each time the end is looked at."""
