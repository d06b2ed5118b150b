# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Marks what nodes say of themselves as text that is never a template.

From ansible-core 2.19 on nothing is a template unless it was trusted; before, whatever looked like
one was, unless it was marked.
"""

from __future__ import annotations

from typing import Any

try:
    from ansible.utils.unsafe_proxy import wrap_var
except ImportError:  # gone from ansible-core 2.23

    def wrap_var(v: Any) -> Any:
        """Nothing to mark."""
        return v


def untrusted(value: Any) -> Any:
    """The same value, no part of which is ever a template."""
    return wrap_var(value)
