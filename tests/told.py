"""A module that tells how it was started."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    print(sys.argv, sys.path, __spec__.name if __spec__ else None, __package__, __file__)
