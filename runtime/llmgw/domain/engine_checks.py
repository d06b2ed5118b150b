"""What came of comparing a driver's options with what the engine's own programs say of theirs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """One program of an engine: how many options were looked for, and a sentence for each fault."""

    command: str
    words: tuple[str, ...]
    """How it was asked."""

    checked: int = 0
    problems: tuple[str, ...] = ()
    failure: str = ""
    """Why it could not be asked; nothing is known of its options then."""

    @property
    def is_good(self) -> bool:
        """It was asked, and takes everything that llmgw gives it."""
        return not self.problems and not self.failure


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """One engine on one node."""

    engine: str
    programs: tuple[ProgramCheck, ...] = ()

    @property
    def is_good(self) -> bool:
        """Every program of it is."""
        return bool(self.programs) and all(program.is_good for program in self.programs)
