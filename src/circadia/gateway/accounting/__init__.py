"""Usage and budgets: the journal of calls, written behind the answers."""
