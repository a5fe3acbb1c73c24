"""What a run writes down as it goes: counts, incidents, failures, and the journal of a device process."""
