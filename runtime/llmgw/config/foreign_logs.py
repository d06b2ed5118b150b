"""Keeps libraries that are not Python from writing into our logs.

The command's entry calls it, before anything is loaded. It is the one place that sets a variable of
this process: gRPC's C core reads its own when it is loaded and offers no other way.
"""

from __future__ import annotations

import os

_GRPC_VERBOSITY = "GRPC_VERBOSITY"


def silence() -> None:
    """Turn off gRPC's own lines, which fit no format of ours; an operator's own choice stands."""
    os.environ.setdefault(_GRPC_VERBOSITY, "NONE")
