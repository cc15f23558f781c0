"""Shows a namespace of a server: python -m tensorkv summary|plot."""

import argparse
import os
import sys
from typing import List, Optional

from tensorkv._pictures import plot_store, print_summary
from tensorkv.client import DEFAULT_ADDRESS, Client
from tensorkv.errors import Error

# As the command `tensorkv` has them.
_CREDENTIALS = (
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_server_name",
    "token_file",
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tensorkv",
        description="Shows what a namespace of a server does and has.",
    )
    parser.add_argument(
        "command",
        choices=("summary", "plot"),
        help="a line per key as text, or the same as a picture (SVG)",
    )
    parser.add_argument(
        "-s",
        "--server",
        default=os.environ.get("TENSORKV_SERVER") or DEFAULT_ADDRESS,
        help=f"else TENSORKV_SERVER, or {DEFAULT_ADDRESS}",
    )
    parser.add_argument("-n", "--namespace", default="")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="standard output unless given"
    )
    for name in _CREDENTIALS:
        parser.add_argument(f"--{name}", default="", help="as tensorkv.Client")
    return parser


def _write(command: str, client: Client, path: Optional[str]) -> None:
    if command == "plot":
        svg = plot_store(client, path)
        if path is None:
            print(svg)
    elif path is None:
        print_summary(client)
    else:
        with open(path, "w", encoding="utf-8") as file:
            print_summary(client, file)


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command; returns the exit status."""
    flags = _parser().parse_args(arguments)
    credentials = {name: getattr(flags, name) for name in _CREDENTIALS}
    try:
        with Client(
            flags.server, namespace=flags.namespace, **credentials
        ) as client:
            _write(flags.command, client, flags.output)
    except (Error, OSError) as error:
        print(f"tensorkv: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
