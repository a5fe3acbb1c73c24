"""The pytest side of a run: options, settings, workers on this host and elsewhere, the end."""
