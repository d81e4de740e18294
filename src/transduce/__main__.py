"""`python -m transduce` is `transduce`."""

import sys

from transduce.cli import main

if __name__ == "__main__":
    sys.exit(main())
