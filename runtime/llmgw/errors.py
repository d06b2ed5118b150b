"""The exception tree of llmgw.

Everything that we raise on purpose is declared here; a class exists because some caller reacts
differently.
Modules that call foreign code translate its errors into these, by a table, ``from`` the original.

    LlmgwError
    ├── Invalid                 the caller's input is wrong
    │   ├── SettingsInvalid     one or more settings; carries every problem
    │   ├── CatalogInvalid      one or more catalog entries; carries every problem
    │   └── ExtraMissing        a command needs packages that this installation lacks
    ├── Unauthenticated         who are you
    │   └── KeyUnknown          no key of ours, or one that is revoked or has run out
    ├── Denied                  we know you, and the answer is no
    │   └── IdentityMismatch    a certificate names another node
    ├── Unknown                 no such thing
    │   └── NoControlPlane      this server only routes
    ├── Conflict                the thing is not in a state that allows this
    │   ├── AlreadyHeld         a lock, port, file or name is held by somebody else
    │   ├── Unsupported         this machine can never do it
    │   ├── NoStore             this server keeps nothing
    │   ├── EmailTaken          somebody has this address already
    │   └── Superseded          a newer one took this one's place
    ├── Exhausted               a limit or a budget is used up
    │   └── TooManyAttempts     passwords were guessed
    │   └── LimitReached        a limit of a key, or of what is above it; says which
    ├── Unavailable             try again later
    │   ├── Standby             this control plane does not lead
    │   ├── NotConnected        the node has no stream
    │   ├── Unreachable         a peer does not answer
    │   ├── KeysUnavailable     whether a key is ours cannot be found out now
    │   └── DeadlinePassed      a bounded wait ended
    └── Internal                our own fault
        ├── DiscoveryFailed     a part of this machine could not be read
        ├── EngineFailed        an engine could not be started or died
        ├── HashUnreadable      a stored password is no hash that we make
        └── IllegalTransition   a state machine was asked for a step that it does not have
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class Kind(enum.StrEnum):
    """How a caller reacts; becomes a status, a gRPC code or an exit code in one place each."""

    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    DENIED = "denied"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"
    EXHAUSTED = "exhausted"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in somebody's input: where it is, what is wrong, what would be right."""

    path: str
    message: str

    def __str__(self) -> str:
        """The problem as one line for a person."""
        return f"{self.path}: {self.message}" if self.path else self.message


class LlmgwError(Exception):
    """Base of our exceptions: a stable ``code``, a ``kind``, whether to retry, and a sentence."""

    code: ClassVar[str] = "internal"
    kind: ClassVar[Kind] = Kind.INTERNAL
    retryable: ClassVar[bool] = False
    names_the_store: bool = False
    """Whether the sentence says where the store lies, which is for operators alone."""

    def __init__(self, message: str) -> None:
        """Keep the sentence: what failed, on which thing, what to do."""
        super().__init__(message)
        self.message = message


class Invalid(LlmgwError):
    """The caller's input is wrong; asking again the same way will fail again."""

    code = "invalid"
    kind = Kind.INVALID


class _WithProblems(Invalid):
    """Input with several mistakes, all reported at once."""

    def __init__(self, message: str, problems: Sequence[Problem]) -> None:
        """Keep every problem; the message stays one sentence."""
        super().__init__(message)
        self.problems = tuple(problems)


class SettingsInvalid(_WithProblems):
    """A settings file or environment override holds mistakes."""

    code = "settings_invalid"


class CatalogInvalid(_WithProblems):
    """One or more model definitions hold mistakes."""

    code = "catalog_invalid"


class ExtraMissing(Invalid):
    """A command needs packages that this installation lacks; the message says what to install."""

    code = "extra_missing"


class NotAnEmail(Invalid):
    """What was written is no address of a person."""

    code = "not_an_email"


class WeakPassword(Invalid):
    """A new password is too short, or absurdly long."""

    code = "weak_password"


class SamePassword(Invalid):
    """The new password is the one that is to be replaced."""

    code = "same_password"


class Unauthenticated(LlmgwError):
    """No identity, or one that cannot be believed."""

    code = "unauthenticated"
    kind = Kind.UNAUTHENTICATED


class BadCredentials(Unauthenticated):
    """No such person, or not its password: whoever asks must not learn which."""

    code = "bad_credentials"


class LoginRefused(Unauthenticated):
    """A login elsewhere was not this browser's, was refused there, or proves nothing."""

    code = "login_refused"


class LoginKeyUnknown(LoginRefused):
    """Signed by a key that is not among the known ones: the provider may have a new one."""


class NoSession(Unauthenticated):
    """Nobody is signed in, or not any more."""

    code = "no_session"


class KeyUnknown(Unauthenticated):
    """A key that is not ours, that was revoked, or whose time is over."""

    code = "invalid_api_key"


class Denied(LlmgwError):
    """The identity is known and may not do this."""

    code = "denied"
    kind = Kind.DENIED


class IdentityMismatch(Denied):
    """A certificate names another node than the one that speaks."""

    code = "identity_mismatch"


class Banned(Denied):
    """A node whose certificate is no longer believed, whatever it says."""

    code = "banned"


class NotApproved(Denied):
    """The person waits for an administrator; said only to who knows its password."""

    code = "not_approved"


class Suspended(Denied):
    """The person was shut out; said only to who knows its password."""

    code = "suspended"


class Unknown(LlmgwError):
    """No thing of that name."""

    code = "unknown"
    kind = Kind.UNKNOWN


class NoControlPlane(Unknown):
    """This server only routes: there is no fleet to ask about."""

    code = "no_control_plane"


class Conflict(LlmgwError):
    """The thing exists and is not in a state that allows this."""

    code = "conflict"
    kind = Kind.CONFLICT


class AlreadyHeld(Conflict):
    """A lock, port, file or name is held by another process."""

    code = "already_held"


class Unsupported(Conflict):
    """This machine cannot do it, and trying again changes nothing until the machine does."""

    code = "unsupported"


class NoStore(Conflict):
    """This server has no store, so it cannot keep what it was told, nor tell what was kept."""

    code = "no_store"


class EmailTaken(Conflict):
    """Somebody has this address already."""

    code = "email_taken"


class Superseded(Conflict):
    """A newer stream of the same node took this one's place; two that fight must not hurry back."""

    code = "superseded"


class Exhausted(LlmgwError):
    """A limit or a budget is used up."""

    code = "exhausted"
    kind = Kind.EXHAUSTED


class LimitReached(Exhausted):
    """A limit of a key, or of its project, team or organisation, lets no more in."""

    code = "limit_reached"

    def __init__(
        self,
        message: str,
        *,
        limit_kind: str,
        scope: str,
        scope_id: str,
        retry_after_s: float | None = None,
    ) -> None:
        """``limit_kind`` is one of ``domain.limits.LimitKind``; no wait where none helps."""
        super().__init__(message)
        self.limit_kind = limit_kind
        self.scope = scope
        self.scope_id = scope_id
        self.retry_after_s = retry_after_s


class TooManyAttempts(Exhausted):
    """Passwords were guessed, so that even the right one is not looked at for a while."""

    code = "too_many_attempts"


class Unavailable(LlmgwError):
    """It cannot be done now and may be later."""

    code = "unavailable"
    kind = Kind.UNAVAILABLE
    retryable = True


class Standby(Unavailable):
    """This control plane does not lead; ``leader`` is the admin address of the one that does."""

    code = "standby"

    def __init__(self, message: str, *, leader: str = "") -> None:
        """``leader`` is empty where nobody knows it."""
        super().__init__(message)
        self.leader = leader


class NotConnected(Unavailable):
    """The node has no open stream, so it cannot be commanded."""

    code = "not_connected"


class Unreachable(Unavailable):
    """A peer, engine or server does not answer."""

    code = "unreachable"


class KeysUnavailable(Unavailable):
    """Whether a key is ours cannot be found out now; ``retry_after_s`` is when to ask again."""

    code = "keys_unavailable"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        """Say when to ask again."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlinePassed(Unavailable):
    """A bounded wait ended before the thing happened."""

    code = "deadline_passed"


class Internal(LlmgwError):
    """Our own fault, or that of a program that we run."""


class DiscoveryFailed(Internal):
    """A part of this machine could not be read; what else was read still counts."""

    code = "discovery_failed"


class EngineFailed(Internal):
    """An engine could not be started, or ended on its own."""

    code = "engine_failed"


class HashUnreadable(Internal):
    """A stored password is no hash that we make, so that no password is right."""

    code = "hash_unreadable"


class IllegalTransition(Internal):
    """A state machine was asked for a step that it does not have."""

    code = "illegal_transition"
