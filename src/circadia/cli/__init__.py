"""The command line: one file a noun, over REST, but for `serve`, `config` and `doctor`, which work on this machine."""
