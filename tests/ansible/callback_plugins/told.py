"""Writes one line of JSON a task result into the file that ``TOLD`` names.

``-vv`` and colours are for people; a test reads results, diffs and the end of a play from here.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: told
type: aggregate
short_description: results as lines of JSON
description: For the tests of this project.
"""


class CallbackModule(CallbackBase):
    """One line a result."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "told"

    def v2_runner_on_ok(self, result):
        """A task went well."""
        self._tell("ok", result)

    def v2_runner_on_failed(self, result, **_):
        """A task failed, whether or not the play goes on."""
        self._tell("failed", result)

    def v2_runner_on_skipped(self, result):
        """A task was left out."""
        self._tell("skipped", result)

    def v2_runner_on_unreachable(self, result):
        """A host could not be reached."""
        self._tell("unreachable", result)

    def _tell(self, outcome, result):
        line = {
            "outcome": outcome,
            "host": result._host.get_name(),
            "task": result._task.get_name(),
            "result": result._result,
        }
        with Path(os.environ["TOLD"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")
