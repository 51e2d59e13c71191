"""``python -m sodgp``: the program without its entry point."""

from sodgp.cli import main

main()
