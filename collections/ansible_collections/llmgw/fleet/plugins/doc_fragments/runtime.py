# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""What is said of the options by which modules run the installed llmgw."""

from __future__ import annotations


class ModuleDocFragment:
    """Options of ``_argspec.runtime``; each module says its own ``timeout_s``."""

    DOCUMENTATION = r"""
options:
  executable:
    description: The installed llmgw.
    type: path
    default: /usr/local/bin/llmgw
notes:
  - The role P(llmgw.fleet.runtime#role) puts llmgw on the machine.
  - Of the environment only proxies, certificates of the system, language and home are passed on.
"""
