"""`circadia doctor`: what would keep a server on this machine from its work, and what to do about it."""
