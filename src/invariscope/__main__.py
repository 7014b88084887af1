"""``python -m invariscope`` is the command ``invariscope``."""

import sys

from invariscope.cli.main import main

# Worker processes import this module again, under another name.
if __name__ == "__main__":
    sys.exit(main())
