"""What a control plane needs of a store; ``store.opening.Store`` fits.

So that a server without one imports no SQLAlchemy, which is larger than all else of it.
"""

from __future__ import annotations

from typing import Protocol

from llmgw.api.account_ports import KeyDesk, TreeDesk, UserDesk
from llmgw.control.catalog.keeping import StoredModels
from llmgw.control.operators.kept_words import NodeRows, RollRows
from llmgw.serve.audit_log import Entries
from llmgw.serve.measured import Measures
from llmgw.serve.usage_shown import Rows, Sums


class People(Protocol):
    """What is done about people; ``serve.people.People`` fits."""

    @property
    def desk(self) -> UserDesk:
        """What administrators do."""
        ...


class Accounts(Protocol):
    """What is done about people, keys and the tree; ``serve.accounts.Accounts`` fits."""

    @property
    def keys(self) -> KeyDesk:
        """The life of keys."""
        ...

    @property
    def directory(self) -> TreeDesk:
        """Places and limits."""
        ...

    @property
    def people(self) -> People:
        """Who may sign in."""
        ...


class Kept(Protocol):
    """The repositories of one store."""

    @property
    def models(self) -> StoredModels:
        """Models that were added at run time."""
        ...

    @property
    def nodes(self) -> NodeRows:
        """Nodes that were there, and what operators said of them."""
        ...

    @property
    def rolls(self) -> RollRows:
        """Rolls under way."""
        ...

    @property
    def audit(self) -> Entries:
        """What operators did."""
        ...

    @property
    def capacity(self) -> Measures:
        """What was measured."""
        ...

    @property
    def usage(self) -> Rows:
        """What requests used."""
        ...

    @property
    def usage_sums(self) -> Sums:
        """The sums of that."""
        ...
