"""What the control plane is told about a node, at first and at each heartbeat."""

import asyncio
import threading

import pytest

import llmgw
from llmgw.agent.discovery.address import Identity
from llmgw.agent.discovery.fabrics import FabricCheck
from llmgw.agent.discovery.facts import Discovery, Timeouts
from llmgw.agent.discovery.scan import Cards, EnginesHere, Files, Hardware
from llmgw.config.settings import AgentSettings
from llmgw.domain.nodes import (
    EngineInstall,
    Fabric,
    Gpu,
    Host,
    InstallState,
    LocalWeights,
    NodeFacts,
    Storage,
)

SPACE = (Storage("/srv", 5, 10),)
WEIGHTS = (LocalWeights("/srv/m.gguf", 3),)
WHO = Identity("node01", "node01.example.com", "10.0.0.5", "eth0")


def _card(index=0, *, used_mib=4, problems=()):
    return Gpu(
        index=index, uuid="u", name="NVIDIA H200", memory_used_mib=used_mib, problems=problems
    )


INSTALLS = (EngineInstall("vllm", "0.11.0", "", InstallState.UNSUPPORTED, "no driver"),)


class FakeScanner:
    """A machine whose parts a test sets, and may let hang."""

    def __init__(self):
        self.gpus = (_card(),)
        self.weights = WEIGHTS
        self.n_walks = 0
        self.failures = ()
        self.gate = threading.Event()
        self.gate.set()

    def files(self):
        self.gate.wait(10)
        self.n_walks += 1
        return Files(storage=SPACE, weights=self.weights)

    def space(self):
        return SPACE

    def cards(self):
        return Cards(gpus=self.gpus, source="nvml", failures=self.failures)

    def hardware(self):
        checks = (
            FabricCheck(name="ib", usable=("mlx5_0",), rate_gbps=200, problems=()),
            FabricCheck(name="roce", usable=(), rate_gbps=None, problems=("no port",)),
        )
        return Hardware(
            cards=self.cards(), fabrics=checks, memory_total_mb=64, host=Host(os_id="debian")
        )

    def memory_total_mb(self):
        return 64

    def engines(self):
        return EnginesHere(versions={"sim": "unknown"}, installs=INSTALLS)


@pytest.fixture
def scanner():
    made = FakeScanner()
    yield made
    made.gate.set()


@pytest.fixture
def discovery(scanner, clock):
    return _discovery(scanner, clock)


def _discovery(scanner, clock, **timeouts):
    return Discovery(
        settings=AgentSettings(labels={"rack": "r1"}, port_range=(21000, 21099)),
        identity=WHO,
        scanner=scanner,
        clock=clock,
        timeouts=Timeouts(**timeouts),
    )


async def test_a_registration_carries_everything(discovery):
    assert await discovery.facts() == NodeFacts(
        node_id="node01",
        hostname="node01.example.com",
        mgmt_addr="10.0.0.5",
        agent_version=llmgw.__version__,
        labels={"rack": "r1"},
        gpus=(_card(),),
        fabrics=(Fabric(name="ib", hcas=("mlx5_0",), rate_gbps=200),),
        host=Host(os_id="debian"),
        memory_total_mb=64,
        storage=SPACE,
        weights=WEIGHTS,
        engine_versions={"sim": "unknown"},
        engines_probed=True,
        engine_installs=INSTALLS,
        port_range=(21000, 21099),
    )


async def test_a_fabric_without_a_usable_adapter_is_not_offered(discovery):
    assert [fabric.name for fabric in (await discovery.facts()).fabrics] == ["ib"]


async def test_memory_held_by_others_is_no_lasting_problem_of_the_card(discovery, scanner):
    scanner.gpus = (_card(used_mib=40_000),)
    (card,) = (await discovery.facts()).gpus
    assert (card.memory_used_mib, card.problems) == (40_000, ())


async def test_a_heartbeat_carries_what_may_have_changed(discovery, scanner):
    await discovery.facts()
    scanner.gpus = (_card(0, used_mib=9), _card(1, used_mib=None, problems=("bad",)))
    beat = await discovery.refresh()
    assert beat.gpu_memory_used_mib == {0: 9}
    assert beat.new_problems == ("GPU 1: bad",)
    assert (beat.storage, beat.memory_total_mb) == (SPACE, 64)
    assert beat.weights == WEIGHTS
    assert (beat.engine_versions, beat.engine_installs) == ({"sim": "unknown"}, INSTALLS)
    assert (await discovery.refresh()).new_problems == ()


async def test_slow_folders_are_not_walked_at_every_heartbeat(discovery, scanner, clock):
    files = scanner.files

    def slow():
        clock.advance(2.0)
        return files()

    scanner.files = slow
    assert (await discovery.refresh()).weights == WEIGHTS
    clock.advance(30.0)
    beat = await discovery.refresh()
    assert (beat.weights, beat.storage) == (None, SPACE)
    clock.advance(10.0)
    assert (await discovery.refresh()).weights == WEIGHTS
    assert scanner.n_walks == 2


async def test_a_hanging_disk_keeps_no_heartbeat_back(scanner, clock):
    discovery = _discovery(scanner, clock, heartbeat_s=0.05)
    scanner.gate.clear()
    beat = await discovery.refresh()
    assert (beat.storage, beat.weights) == ((), None)
    assert beat.gpu_memory_used_mib == {0: 4}


async def test_an_engine_that_hangs_at_its_check_keeps_no_heartbeat_back(scanner, clock):
    discovery = _discovery(scanner, clock, heartbeat_s=0.05)
    await discovery.facts()
    scanner.engines = lambda: scanner.gate.wait(10)
    scanner.gate.clear()
    beat = await discovery.refresh()
    scanner.gate.set()
    assert (beat.engine_versions, beat.engine_installs) == ({"sim": "unknown"}, INSTALLS)


async def test_a_registration_while_a_disk_hangs_repeats_what_was_known(scanner, clock):
    discovery = _discovery(scanner, clock, registration_s=0.3)
    first = await discovery.facts()
    scanner.gate.clear()
    assert await discovery.facts() == first


async def test_a_read_that_was_given_up_does_not_spoil_the_next(discovery, scanner):
    scanner.gate.clear()
    beating = asyncio.create_task(discovery.refresh())
    await asyncio.sleep(0)
    beating.cancel()
    scanner.gate.set()
    assert (await discovery.facts()).weights == WEIGHTS


async def test_the_same_failure_is_logged_once(discovery, scanner, caplog):
    scanner.failures = ("nvidia-smi ended with 9",)
    for _ in range(3):
        await discovery.refresh()
    scanner.failures = ()
    await discovery.refresh()
    scanner.failures = ("nvidia-smi ended with 9",)
    await discovery.refresh()
    assert [r.getMessage() for r in caplog.records].count("discovery_failed") == 2
