"""The copies that come with the suite: torch, Triton, and batch DMA with one file a driver."""
