"""What can be set of logins by a provider of OpenID Connect, who vouches for people.

A part of ``config.settings``, which declares the whole; ``serve`` makes of it what ``accounts``
takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from llmgw.config.declaring import Name, SecretReference, Url, required, setting, texts_by_name


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """A provider by which people may sign in."""

    issuer: Url = field(
        metadata=required("Its address, exactly as it calls itself; plain HTTP on loopback only.")
    )
    client_id: Name = field(metadata=required("The name under which it knows this cluster."))
    client_secret: SecretReference = field(metadata=required("The secret that goes with it."))
    scopes: tuple[Name, ...] = setting(
        ("openid", "email", "profile"),
        "What is asked for; `openid` and `email` must be among them.",
    )
    groups_claim: str = setting("groups", "Where its tokens say in which groups a person is.")
    projects: Mapping[str, str] = texts_by_name(
        "The project for people of each group, by the project's id; of several groups the first "
        "written here counts. Who is in none of them is refused. Unset means: everybody waits for "
        "approval."
    )
