"""Sessions, agents, their sleep state (its only writer), threads and waits."""
