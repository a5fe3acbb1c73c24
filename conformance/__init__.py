"""What must hold: claims, the harness that runs cases, the oracle that judges them, and the report."""
