"""What the tests of the fleet may ask for: a controller, the product's command, a control plane."""

from __future__ import annotations

import lab_cluster
import llmgw_runtime
import pytest
from admin_double import AdminDouble
from playing import Controller


@pytest.fixture
def controller(tmp_path):
    """A controller with a home of its own."""
    home = tmp_path / "controller"
    home.mkdir()
    return Controller(home=home)


@pytest.fixture(scope="session")
def llmgw():
    """The real command of this checkout."""
    return str(llmgw_runtime.executable())


@pytest.fixture
def admin():
    """A control plane's admin API on loopback, with a log of what it was asked."""
    with AdminDouble() as double:
        yield double


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Booted hosts: a control plane and ``node05``, which serves. A story leaves it as it was."""
    with lab_cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running
