"""The brake on a mass loss, as the admin API shows it."""

from __future__ import annotations

from pydantic import Field

from llmgw.api.schemas.from_view import FromView
from llmgw.api.schemas.status import BrakeOut


class BrakeShownOut(FromView):
    """The brake now."""

    brake: BrakeOut | None = Field(description="Null while it is off.")


class BrakeLiftedOut(FromView):
    """What came of lifting it."""

    was_on: bool = Field(description="False where there was nothing to lift.")
