"""`circadia doctor`: problems that would keep a server on this machine from working, and their remedies."""
