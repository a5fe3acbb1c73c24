"""What is held to account, found by name: selection rules of the suite, of packages and of vLLM."""
