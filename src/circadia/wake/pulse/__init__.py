"""The life cycle of a pulse: start, lease, heartbeat, report, end."""
