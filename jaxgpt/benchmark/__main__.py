"""`python -m jaxgpt.benchmark`: what `jaxgpt bench` does, where the program is not installed."""

import sys

from jaxgpt.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
