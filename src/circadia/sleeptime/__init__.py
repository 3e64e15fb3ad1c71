"""Sleep-time compute: what is worked out over a bank while nobody waits.

Read `due` (when a pass begins, and why not), then `passes` (one run), `operations` and `publish`.
"""
