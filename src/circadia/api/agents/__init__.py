"""REST endpoints for sessions, agents, their sleep, coordination and schedules."""
