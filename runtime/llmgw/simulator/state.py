"""The one state of a running simulated engine, shared by all its connections."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from llmgw.simulator.behaviour import Behaviour, EngineOptions
from llmgw.simulator.measures import Load, Measures
from llmgw.simulator.schedule import Slots


class EngineState:
    """What the engine is doing: behaviour, slots, counters, and whether it has loaded."""

    def __init__(
        self,
        options: EngineOptions,
        *,
        loop: asyncio.AbstractEventLoop,
        on_worn_out: Callable[[], None],
    ) -> None:
        """``on_worn_out`` is called once, when ``exit_after`` requests were answered."""
        self.options = options
        self.behaviour = options.behaviour
        self.measures = Measures()
        self.slots = Slots(parallel=options.parallel)
        self.loop = loop
        self.started_at = int(time.time())
        self.is_ready = False
        self._draw = random.Random()  # noqa: S311  (chooses which requests fail)
        self._answered = 0
        self._on_worn_out = on_worn_out

    def behave(self, behaviour: Behaviour) -> None:
        """Change the behaviour; a hang begins and ends for running answers too."""
        self.behaviour = behaviour
        for runner in self.slots.running():
            if behaviour.hang:
                runner.hold()
            else:
                runner.go_on()

    def is_to_fail(self) -> bool:
        """Whether the present request is one of those that fail."""
        return self.behaviour.fail_rate > 0 and self._draw.random() < self.behaviour.fail_rate

    def answered(self) -> None:
        """Count one complete answer."""
        self._answered += 1
        if self._answered == self.options.exit_after:
            self._on_worn_out()

    def load(self) -> Load:
        """What runs and waits now, with the counters of running answers brought up to date."""
        running = self.slots.running()
        for runner in running:
            runner.catch_up()
        return Load(
            running=len(running),
            waiting=self.slots.n_waiting,
            tokens_held=sum(r.tokens_held for r in running),
            kv_tokens=self.options.kv_tokens,
        )
