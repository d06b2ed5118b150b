"""Ends a playbook at once, as a lost terminal would, after the task that ``STOP_AFTER`` names."""

from __future__ import annotations

import os

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: stop_after
type: aggregate
short_description: ends a playbook after a task
description: For the tests of this project.
"""

STOPPED = 99


class CallbackModule(CallbackBase):
    """Nothing is tidied up."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "stop_after"

    def v2_runner_on_ok(self, result):
        """The task was the last one, if it is the one."""
        if result._task.name == os.environ.get("STOP_AFTER"):
            os._exit(STOPPED)
