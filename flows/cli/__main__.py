"""`python -m flows.cli` is `ares`."""

from flows.cli.main import main

main()
