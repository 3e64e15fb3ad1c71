"""What Circadia costs: each benchmark prints a table and writes JSON. `python -m benchmarks --help`."""
