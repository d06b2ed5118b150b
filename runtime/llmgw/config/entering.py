"""What can be set of how requests get in: who goes first, and who waits for a model to be loaded.

A part of ``config.settings``, which declares the whole; the gateway reads these values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llmgw.config.declaring import FieldName, Name, Seconds, required, setting


@dataclass(frozen=True, slots=True)
class BandSettings:
    """One band of urgency."""

    name: Name = field(metadata=required("Its name, as the header and the metrics say it."))
    ceiling: float = setting(
        1.0,
        "A request of this band waits while the endpoints of its model are fuller than this; 1 is "
        "what they can take and stay well.",
        at_least=0.05,
        at_most=2,
    )
    max_wait_s: Seconds = setting(
        30.0, "How long it may wait before the answer is 429.", at_least=0.1
    )


_BANDS = (
    BandSettings(name="gold", ceiling=1.0, max_wait_s=30.0),
    BandSettings(name="silver", ceiling=0.8, max_wait_s=60.0),
    BandSettings(name="bronze", ceiling=0.6, max_wait_s=300.0),
)


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Who goes first once engines are full."""

    enabled: bool = setting(
        True,
        "Hold requests in the gateway, the least urgent first, rather than let them queue in "
        "engines, which know no order but arrival.",
    )
    band_header: FieldName = setting(
        "x-llmgw-band", "The request header that names a request's band."
    )
    default_band: str = setting("gold", "The band of requests that name none, or none of ours.")
    bands: tuple[BandSettings, ...] = setting(
        _BANDS, "All bands, the most urgent first; each ceiling is lower than the one before."
    )
    queue_max: int = setting(
        256,
        "Requests that may wait for one model in one worker; above it the answer is 429.",
        at_least=1,
    )


@dataclass(frozen=True, slots=True)
class OnDemandSettings:
    """Requests for models that are loaded when they are asked for."""

    hold_s: Seconds = setting(
        30.0,
        "How long a request waits for its model to be loaded before it is told to come again.",
        at_least=0,
    )
    hold_max: int = setting(256, "Requests that may wait for one model in one worker.", at_least=1)
    hold_keepalive: bool = setting(
        False,
        "Begin the answer of a stream that has waited for 10 s, and send it a comment every 10 s, "
        "so that nobody on the way gives up; errors are then told within the stream.",
    )
