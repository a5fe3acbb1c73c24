"""Calls of GPU drivers and of the CPU's streams. `cuda` and `hip` are what backends call; `memory`, `cuda_memory` and
`hip_memory` are what arenas call: what is under test never fills or reads back an arena."""
