"""From evidence to a verdict, without torch: the fill, the oracle's image, the places of wrong bytes."""
