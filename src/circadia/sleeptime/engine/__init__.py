"""Running passes: worker, pass runner, bank reader, services."""
