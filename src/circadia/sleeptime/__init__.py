"""Sleep-time compute: work on a bank while nobody waits.

Read `triggers` (when a pass begins), then `engine` (one run), `operations` and `publish`.
"""
