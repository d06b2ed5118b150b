"""What all pages have in common: how they are made, their cookies, where the cluster is reached."""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.web.addressing import Addressing
from llmgw.web.cookies import Cookies
from llmgw.web.rendering import Renderer


@dataclass(frozen=True, slots=True)
class Frame:
    """See the module."""

    renderer: Renderer
    jar: Cookies
    addressing: Addressing
