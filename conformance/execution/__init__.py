"""Carrying out one case on an open device: descriptors, arenas, the call, and what is read back."""
