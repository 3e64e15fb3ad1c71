"""Commands for wakes, pulses, schedules and messages."""
