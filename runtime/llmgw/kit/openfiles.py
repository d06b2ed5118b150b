"""How many files and sockets this process may have open."""

from __future__ import annotations

import errno
import os
import resource

from llmgw.errors import Invalid

HINT = "raise LimitNOFILE of the unit, or ulimit -Hn"
_UNBOUNDED = 1 << 20


def need(count: int) -> None:
    """Raise the bound to ``count`` where it is lower; ``Invalid`` when the system does not let us.

    The usual soft bound of 1024 is there for programs that use ``select``, which ours do not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise Invalid(
            f"{count} open files are needed and at most {hard} are allowed here; "
            f"raise the bound (ulimit -Hn {count}, or LimitNOFILE of the unit) or take fewer"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def take_all() -> None:
    """Raise the bound as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most() -> int:
    """How many this process may have open as it is."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNBOUNDED if soft == resource.RLIM_INFINITY else soft


def is_any_left() -> bool:
    """Whether one more could be opened now."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno not in {errno.EMFILE, errno.ENFILE}
    return True
