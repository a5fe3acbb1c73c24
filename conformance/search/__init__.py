"""Looking for the smallest case that fails: listed ones first, then Hypothesis, then shrinking."""
