"""Write the table of flags of docs/command-line.md from the program: ``python docs/make_command_line.py [--check]``."""

from __future__ import annotations

import sys
from pathlib import Path

from sodgp.cli.options import FLAG, NO_FLAG, OPTIONS

PAGE = Path(__file__).with_name("command-line.md")
BEGIN, END = "<!-- begin: make_command_line.py -->", "<!-- end: make_command_line.py -->"


def table() -> str:
    """One row for each argument of the estimator."""
    lines = ["| flag | key of a config file | meaning | default |", "|---|---|---|---|"]
    for name, option in OPTIONS.items():
        dashed = name.replace("_", "-")
        if option.kind is FLAG:
            flag = f"`--{dashed}`, `--no-{dashed}`"
        else:
            values = option.kind.metavar.replace("|", "\\|")
            flag = f"`--{dashed}` {values}" + (f", `--{option.short}`" if option.short else "")
        lines.append(f"| {flag} | `{name}` | {option.help} | {option.default} |")
    missing = [f"`{name}`: {reason}" for name, reason in NO_FLAG.items()]
    return "\n".join([*lines, "", "Arguments without a flag: " + "; ".join(missing) + "."])


def renewed(page: str) -> str:
    """The page with a fresh table."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare it."""
    page = PAGE.read_text(encoding="utf-8")
    fresh = renewed(page)
    if "--check" not in arguments:
        PAGE.write_text(fresh, encoding="utf-8")
        return 0
    return int(page != fresh)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
