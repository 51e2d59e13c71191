"""``python -m sodgp.cli``: the program without its entry point."""

from sodgp.cli.program import main

main()
