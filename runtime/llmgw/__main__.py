"""``python -m llmgw``: the same as the console script ``llmgw``."""

from __future__ import annotations

import sys

from llmgw.cli import root

if __name__ == "__main__":
    sys.exit(root.main())
