"""What the control plane is told about a node, at first and at each heartbeat."""

import asyncio
import threading
from dataclasses import replace

import pytest

import llmgw
from llmgw.agent.discovery.address import Identity
from llmgw.agent.discovery.fabrics import FabricCheck
from llmgw.agent.discovery.facts import Discovery, Timeouts
from llmgw.agent.discovery.findings import (
    Cards,
    EnginesHere,
    Files,
    Surroundings,
)
from llmgw.config.settings import AgentSettings
from llmgw.domain.nodes import (
    EngineInstall,
    Fabric,
    Gpu,
    GpuGauges,
    Host,
    InstallState,
    LocalWeights,
    NodeFacts,
    Storage,
)

SPACE = (Storage("/srv", 5, 10),)
WEIGHTS = (LocalWeights("/srv/m.gguf", 3),)
WHO = Identity("node01", "node01.example.com", "10.0.0.5", "eth0")


def _card(index=0, *, used_mib=4, problems=(), busy=None):
    return Gpu(
        index=index,
        uuid="u",
        name="NVIDIA H200",
        memory_used_mib=used_mib,
        utilization_percent=busy,
        problems=problems,
    )


INSTALLS = (EngineInstall("vllm", "0.11.0", "", InstallState.UNSUPPORTED, "no driver"),)


class FakeScanner:
    """A machine whose parts a test sets, and may let hang."""

    def __init__(self):
        self.gpus = (_card(),)
        self.weights = WEIGHTS
        self.n_walks = 0
        self.n_looks_around = 0
        self.usable = ("mlx5_0",)
        self.failures = ()
        self.gate = threading.Event()
        self.gate.set()
        self.slow = threading.Event()
        self.slow.set()

    def files(self):
        self.gate.wait(10)
        self.n_walks += 1
        return Files(storage=SPACE, weights=self.weights)

    def space(self):
        return SPACE

    def cards(self):
        self.slow.wait(10)
        return Cards(gpus=self.gpus, source="nvml", failures=self.failures)

    def around(self):
        self.n_looks_around += 1
        checks = (
            FabricCheck(name="ib", usable=self.usable, rate_gbps=200, problems=()),
            FabricCheck(name="roce", usable=(), rate_gbps=None, problems=("no port",)),
        )
        return Surroundings(fabrics=checks, host=Host(os_id="debian"), warnings=("no AVX2",))

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
        fabric_problems=("fabric roce: no port",),
        warnings=("no AVX2",),
        host=Host(os_id="debian"),
        memory_total_mb=64,
        storage=SPACE,
        weights=WEIGHTS,
        engine_versions={"sim": "unknown"},
        engines_probed=True,
        engine_installs=INSTALLS,
        launch_modes={"vllm": "ray"},
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
    scanner.around = Surroundings
    scanner.failures = ("nvidia-smi ended with 9",)
    for _ in range(3):
        await discovery.refresh()
    scanner.failures = ()
    await discovery.refresh()
    scanner.failures = ("nvidia-smi ended with 9",)
    await discovery.refresh()
    assert [r.getMessage() for r in caplog.records].count("discovery_failed") == 2


async def test_use_of_cards_is_read_again_only_once_it_is_old(discovery, scanner, clock):
    scanner.gpus = (_card(0, busy=70), _card(1))
    assert await discovery.gpu_utilization() == {0: 70}
    scanner.gpus = (_card(0, busy=10),)
    clock.advance(5)
    assert await discovery.gpu_utilization() == {0: 70}
    clock.advance(6)
    assert await discovery.gpu_utilization() == {0: 10}


async def test_cards_that_cannot_be_read_show_no_old_use(discovery, scanner, clock):
    scanner.gpus = (_card(0, busy=100),)
    await discovery.refresh()
    assert await discovery.gpu_utilization() == {0: 100}
    scanner.gpus = ()
    clock.advance(11)
    assert await discovery.gpu_utilization() == {}
    assert [gpu.index for gpu in discovery.gpus()] == [0], "orders are still checked against them"


async def test_a_card_that_breaks_and_mends_is_told_both_times(discovery, scanner):
    await discovery.facts()
    scanner.gpus = (_card(problems=("Xid 79",)),)
    assert [gpu.problems for gpu in (await discovery.refresh()).gpus] == [("Xid 79",)]
    assert [gpu.problems for gpu in discovery.gpus()] == [("Xid 79",)]
    scanner.gpus = (_card(),)
    assert [gpu.problems for gpu in (await discovery.refresh()).gpus] == [()]


async def test_gauges_of_cards_are_in_every_heartbeat(discovery, scanner):
    scanner.gpus = (replace(_card(), utilization_percent=87, temperature_c=61, power_watts=450),)
    beat = await discovery.refresh()
    assert beat.gpu_gauges == {0: GpuGauges(87, 61, 450)}


async def test_a_driver_that_fails_for_a_moment_says_nothing_of_its_cards(discovery, scanner):
    await discovery.facts()
    scanner.gpus, scanner.failures = (), ("nvidia-smi ended with 9",)
    for _ in range(2):
        beat = await discovery.refresh()
        assert (beat.gpus, beat.gpu_gauges, beat.gpu_memory_used_mib) == (None, {}, {})


async def test_cards_of_a_driver_that_goes_on_failing_are_out_of_use(discovery, scanner):
    await discovery.facts()
    scanner.gpus, scanner.failures = (), ("nvidia-smi ended with 9",)
    for _ in range(4):
        beat = await discovery.refresh()
    (card,) = beat.gpus
    assert card.problems == ("it cannot be read: nvidia-smi ended with 9",)
    assert (card.uuid, card.name, card.memory_used_mib) == ("u", "NVIDIA H200", None)
    assert beat.warnings[0] == "could not be read: nvidia-smi ended with 9"
    scanner.gpus, scanner.failures = (_card(),), ()
    assert (await discovery.refresh()).gpus == (_card(),)


async def test_adapters_are_looked_at_once_a_minute(discovery, scanner, clock):
    await discovery.facts()
    scanner.usable = ()
    clock.advance(59.0)
    assert [f.name for f in (await discovery.refresh()).fabrics] == ["ib"]
    clock.advance(1.0)
    beat = await discovery.refresh()
    assert (beat.fabrics, beat.fabric_problems) == ((), ("fabric roce: no port",))
    await discovery.refresh()
    assert scanner.n_looks_around == 2


async def test_a_look_at_the_cards_that_takes_long_is_used_when_it_ends(scanner, clock):
    discovery = _discovery(scanner, clock, heartbeat_s=0.02, registration_s=0.02)
    scanner.slow = threading.Event()
    assert (await discovery.facts()).gpus == ()
    for _ in range(5):
        beat = await discovery.refresh()
        assert (beat.gpus, beat.gpu_gauges) == (None, {})
    scanner.slow.set()
    beat = await _until_told(discovery)
    assert beat.gpus == (_card(),)
    assert beat.gpus[0].problems == ()


async def test_slow_looks_at_the_cards_leave_pauses(scanner, clock):
    cards = scanner.cards

    def slow():
        clock.advance(4.0)
        return cards()

    scanner.cards = slow
    discovery = _discovery(scanner, clock)
    assert (await discovery.refresh()).gpus == (_card(),)
    clock.advance(11.0)
    assert (await discovery.refresh()).gpus is None
    clock.advance(1.0)
    assert (await discovery.refresh()).gpus == (_card(),)


async def _until_told(discovery):
    """Each refresh waits a little for the look by itself."""
    for _ in range(200):
        beat = await discovery.refresh()
        if beat.gpus is not None:
            return beat
    return pytest.fail("the look was lost")
