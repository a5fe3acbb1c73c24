"""What a test of the standard holds in its hand: a claim about one subject, and how it is searched and counted."""
