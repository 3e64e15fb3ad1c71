"""Ways to run an agent for one pulse."""
