"""What each part of the admin API is about, for the page that describes it."""

from __future__ import annotations

_ABOUT = {
    "probes": "Whether the process lives and should be sent traffic, and its figures.",
    "status": "The fleet on one page, who leads, and who was not let in.",
    "nodes": "The machines, and an operator's word on them.",
    "engines": "Engines on nodes: which are there, and whether they take what they are given.",
    "logs": "What agents and engines wrote.",
    "models": "The models of the catalog, how much of each runs, and changes of it.",
    "catalog": "The whole catalog at once.",
    "plan": "What passes would do; nothing of it is done.",
    "replicas": "What runs, shard by shard.",
    "weights": "Downloads of nodes: on their way, wanted ahead, and named by nobody.",
    "capacity": "What ways to run models were measured to carry.",
    "brake": "The brake on a mass loss.",
    "decisions": "What passes have done.",
    "users": "Who may sign in.",
    "keys": "What programs show to be let in.",
    "tree": "Organisations, teams and projects, to which keys and people belong.",
    "limits": "What organisations, teams, projects and keys may use.",
    "usage": "What was used, by whom, and what it cost.",
    "audit": "What operators have done, and what was refused.",
    "support": "What somebody who helps has to see.",
}


def described() -> list[dict[str, str]]:
    """All parts, as OpenAPI lists them."""
    return [{"name": name, "description": about} for name, about in _ABOUT.items()]
