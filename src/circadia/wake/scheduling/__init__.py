"""Routines, recurrences and blackouts: plans as a function of time."""
