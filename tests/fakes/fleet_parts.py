"""The parts of a control plane that the agent service calls, in memory."""

from __future__ import annotations


class FakeFleet:
    """Notes what nodes say; ``unclaimed`` is what it answers to a registration."""

    def __init__(self):
        self.events = []
        self.unclaimed = ()
        self.forgotten = set()
        self.error = None

    def register(self, facts, running):
        if self.error is not None:
            raise self.error
        self.events.append(("register", facts, running))
        return self.unclaimed

    def heartbeat(self, node_id, beat):
        self.events.append(("heartbeat", node_id, beat))
        return node_id not in self.forgotten

    def shard_report(self, report):
        self.events.append(("report", report))

    def stream_lost(self, node_id):
        self.events.append(("lost", node_id))

    def of(self, kind):
        return [event for event in self.events if event[0] == kind]


class FakeLeadership:
    """Leads as it is told."""

    def __init__(self, *, leads=True, term=0):
        self.leads = leads
        self.number = term
        self.terms_heard = []

    def is_leader(self):
        return self.leads

    def term(self):
        return self.number

    def heard(self, term):
        self.terms_heard.append(term)
