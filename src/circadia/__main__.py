"""`python -m circadia` is `circadia`."""

from circadia.cli.app import main

if __name__ == "__main__":
    main()
