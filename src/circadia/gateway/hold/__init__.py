"""Holding calls of sleeping agents: the gate, keep-alive bytes, spooled bodies, release pacing."""
