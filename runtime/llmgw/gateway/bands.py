"""The bands of urgency: how full a pool may be for each, and how long each may wait; pure.

``admission`` orders its waiters by them.  A band comes from what the operator trusts: the key, and
where requests carry none, a header.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmgw.config.entering import AdmissionSettings


@dataclass(frozen=True, slots=True)
class Band:
    """One band; the most urgent has rank 0 and the highest ceiling."""

    name: str
    rank: int
    ceiling: float
    max_wait_s: float


class Bands:
    """All bands, most urgent first, and which of them a request is of."""

    __slots__ = ("_by_name", "_by_value", "_default", "_header", "all")

    def __init__(self, settings: AdmissionSettings) -> None:
        self.all = tuple(
            Band(name=band.name, rank=rank, ceiling=band.ceiling, max_wait_s=band.max_wait_s)
            for rank, band in enumerate(settings.bands)
        )
        by_name = {band.name: band for band in self.all}
        self._by_name = by_name
        self._by_value = {band.name.encode(): band for band in self.all}
        self._default = by_name[settings.default_band]
        self._header = settings.band_header.lower().encode()

    def named(self, name: str | None) -> Band:
        """The band that a key is given; the default one where it has none that is ours."""
        return self._default if name is None else self._by_name.get(name, self._default)

    def of(self, headers: dict[bytes, bytes]) -> Band:
        """The band that the header names; the default one where it names none of ours."""
        named = headers.get(self._header)
        return self._default if named is None else self._by_value.get(named, self._default)
