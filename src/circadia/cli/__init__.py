"""The command line: one file per noun, over REST; only `serve`, `config` and `doctor` work on this machine."""
