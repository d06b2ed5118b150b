"""All metrics of the control plane, declared in one list; the gateway's are in its own room.

``fleet_figures`` makes the samples at each scrape, ``serve`` renders them. Labels are names that
operators chose and words of ours. A figure that nobody reported is absent, never 0.
"""

from __future__ import annotations

from llmgw.kit import metrics
from llmgw.kit.metrics import Family, Kind

PASS_EDGES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)

_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
_OF_GPU = ("node", "gpu", "class")
_OF_REPLICA = ("replica", "model")

OF_ANY = (
    Family("llmgw_leader", _G, "1 where this control plane leads, 0 where it stands by."),
    Family("llmgw_leader_term", _G, "The leader's term; absent where nobody can depose it."),
)
"""What a standby shows too."""

OF_LEADER = (
    # Nodes
    Family(
        "llmgw_node_up",
        _G,
        "1 for a node that speaks and takes replicas; 0 when silent, cordoned or draining.",
        ("node", "state"),
    ),
    Family("llmgw_node_last_seen_seconds", _G, "Since a node last spoke.", ("node",)),
    Family("llmgw_agent_streams", _G, "Agents that are connected."),
    Family(
        "llmgw_gateway_connected",
        _G,
        "Gateways on other hosts: 1 for one that is heard, 0 for one that may come back.",
        ("gateway",),
    ),
    Family("llmgw_node_disk_free_bytes", _G, "Free on a node's own filesystems.", ("node",)),
    Family("llmgw_node_disk_total_bytes", _G, "Size of a node's own filesystems.", ("node",)),
    Family("llmgw_node_memory_total_bytes", _G, "Memory of a node.", ("node",)),
    Family("llmgw_node_memory_claimed_bytes", _G, "Of that, promised to replicas.", ("node",)),
    Family(
        "llmgw_engine_install",
        _G,
        "1 for each engine that is installed on a node or should be, with its state.",
        ("node", "engine", "state"),
    ),
    # Cards
    Family("llmgw_gpus", _G, "Cards: `free`, `used` or `unhealthy`.", ("class", "state")),
    Family("llmgw_gpu_memory_total_bytes", _G, "Memory of a card.", _OF_GPU),
    Family("llmgw_gpu_memory_used_bytes", _G, "Of that, in use.", _OF_GPU),
    Family("llmgw_gpu_utilization_ratio", _G, "How busy a card was in the last look.", _OF_GPU),
    Family("llmgw_gpu_temperature_celsius", _G, "Temperature of a card.", _OF_GPU),
    Family("llmgw_gpu_problems", _G, "What keeps a card out of use.", _OF_GPU),
    Family("llmgw_gpu_nvlink_peers", _G, "Cards that a card reaches over NVLink.", ("node", "gpu")),
    Family("llmgw_fabric_free_nodes", _G, "Nodes of which every card is free.", ("fabric",)),
    # What runs
    Family("llmgw_replicas", _G, "Replicas by state.", ("state",)),
    Family(
        "llmgw_model_replicas_ready",
        _G,
        "Replicas that serve; absent for a model of which none is wanted or there.",
        ("model",),
    ),
    Family(
        "llmgw_model_unplaced",
        _G,
        "Replicas that are wanted and have no place, by what stands in the way first.",
        ("model", "gate"),
    ),
    Family("llmgw_replica_idle_seconds", _G, "Since a replica was last used.", _OF_REPLICA),
    Family(
        "llmgw_replica_stale_profile",
        _G,
        "1 where a replica's profile was edited after it was placed.",
        _OF_REPLICA,
    ),
    # Passes
    Family(
        "llmgw_brake_active",
        _G,
        "1 while many nodes are silent at once: none is given up and nothing is placed.",
    ),
    Family("llmgw_pass_seconds", _H, "How long passes took.", (), PASS_EDGES_S),
    Family("llmgw_pass_actions_total", _C, "What passes did.", ("action",)),
    Family("llmgw_evictions_total", _C, "Replicas that went to make room for another model."),
)

FAMILIES = (*OF_ANY, *OF_LEADER)

_HEAD = """## The control plane

The same page shows these of a server that has a control plane, after the gateway's.
They are made from what is known at the moment of the scrape; agents are not scraped."""


def page() -> str:
    """The part of the page of reference that lists them."""
    return metrics.reference(_HEAD, FAMILIES)
