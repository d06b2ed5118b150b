"""Log events, not prose: a short snake_case event and its keys, one line each.

``setup`` is called once by the process's entry; everything else calls ``get(__name__)``.
Secrets, prompts and completions are never passed in (house rule), so nothing is filtered here.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import IO, Any

_ROOT = "llmgw"


class Log:
    """A named source of events."""

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        """Wrap a standard logger; use ``get``."""
        self._logger = logger

    def debug(self, event: str, **keys: object) -> None:
        """Detail that is off by default."""
        self._emit(logging.DEBUG, event, keys, None)

    def info(self, event: str, **keys: object) -> None:
        """A change of state."""
        self._emit(logging.INFO, event, keys, None)

    def warning(self, event: str, **keys: object) -> None:
        """A person may need to act."""
        self._emit(logging.WARNING, event, keys, None)

    def error(self, event: str, *, exc: BaseException | None = None, **keys: object) -> None:
        """A person must act; ``exc`` adds the stack."""
        self._emit(logging.ERROR, event, keys, exc)

    def is_enabled_for_info(self) -> bool:
        """Whether an INFO event would be written; lets hot code skip building one."""
        return self._logger.isEnabledFor(logging.INFO)

    def _emit(
        self, level: int, event: str, keys: dict[str, object], exc: BaseException | None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"keys": keys}, exc_info=exc)


def get(name: str) -> Log:
    """The source of events of one module."""
    return Log(logging.getLogger(name))


def setup(
    *,
    level: str = "info",
    as_json: bool = False,
    stream: IO[str] | None = None,
    handler: logging.Handler | None = None,
) -> None:
    """Send events of ``llmgw`` to ``handler`` or ``stream`` (standard error), and nowhere else."""
    root = logging.getLogger(_ROOT)
    for old in list(root.handlers):
        root.removeHandler(old)
    handler = handler or logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonLines() if as_json else _Plain())
    root.addHandler(handler)
    root.setLevel(level.upper())
    root.propagate = False


def add_handler(handler: logging.Handler) -> None:
    """Also hand every event to ``handler`` as plain lines; the agent's log ring uses this."""
    handler.setFormatter(_Plain())
    logging.getLogger(_ROOT).addHandler(handler)


def _keys(record: logging.LogRecord) -> dict[str, Any]:
    keys = getattr(record, "keys", None)
    return keys if isinstance(keys, dict) else {}


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head = (
            f"{stamp}.{int(record.msecs):03d}Z {record.levelname.lower():7} {record.getMessage()}"
        )
        line = " ".join(
            [head, *(f"{k}={_plain(v)}" for k, v in _keys(record).items() if v is not None)]
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "at": record.created,
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "source": record.name,
        }
        fields.update({k: v for k, v in _keys(record).items() if v is not None})
        if record.exc_info:
            fields["stack"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def _plain(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return (
        json.dumps(text, ensure_ascii=False)
        if not text or any(c in ' "=\n\r\t' for c in text)
        else text
    )
