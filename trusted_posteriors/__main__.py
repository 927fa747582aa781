"""``python -m trusted_posteriors`` and ``trusted-posteriors``: what ``python -m bridge`` does."""

import sys

from bridge.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
