"""How cases are drawn with Hypothesis, piece by piece: pools, mappings, layouts, submissions; and facts for rules."""
