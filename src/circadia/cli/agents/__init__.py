"""Commands for agents, sessions and sleep."""
