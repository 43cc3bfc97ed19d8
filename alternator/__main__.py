"""python -m alternator ..."""

import sys

from alternator.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
