"""What vLLM's CPU build lacks on some machines, put in as its modules are imported."""
