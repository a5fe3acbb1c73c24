"""What must hold, as data: ids, sentences and reasons, the kinds of claims, and how many cases each gets."""
