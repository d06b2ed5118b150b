"""What an answer says of who leads; pure."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx

from llmgw.domain.actors import LEADER_HEADER, STANDING_HEADER
from llmgw.errors import Standby


def leader_to_ask(response: httpx.Response, *, asked: str) -> str:
    """Where to say it again, where a standby has refused a write and knows of somebody else."""
    if response.status_code != HTTPStatus.CONFLICT:
        return ""
    try:
        document: Any = response.json()
    except ValueError:
        return ""
    match document:
        case {"error": {"code": Standby.code, "leader": str(leader)}} if leader:
            url = leader if "://" in leader else f"http://{leader}"
            return "" if url == asked else url
    return ""


def remark(headers: Mapping[str, str], *, asked: str) -> str:
    """What to say beside an answer of one that does not lead; empty where it does."""
    standing, leader = headers.get(STANDING_HEADER, ""), headers.get(LEADER_HEADER, "")
    if standing == "standby":
        known = f"; {leader} leads" if leader else ""
        return f"{asked} is a standby and shows only what it knows itself{known}"
    if standing:
        return f"{asked} could not renew its lease, so nothing is changed until its store answers"
    return ""
