"""Memory of every kind, by the page: maps with unmapped edges, registration, NUMA nodes, device regions."""
