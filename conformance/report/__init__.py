"""What a run's record amounts to: the result, what it falls short of, and failures in words."""
