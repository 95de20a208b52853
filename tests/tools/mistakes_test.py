"""The mistakes that a soak plants have a place in the code as it is now: those of the simulated fleet
(tests/sim/planted_test.py), and those that small worlds can't see (tests/model/turned_test.py). Whether the others are
found takes a soak; that they can be planted is seen with every change."""
import importlib.util
import os

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def loaded(*path):
    spec = importlib.util.spec_from_file_location("mistakes_" + path[0], os.path.join(ROOT, "tests", *path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIM, WORLDS = loaded("sim", "planted_test.py"), loaded("model", "turned_test.py")


@pytest.mark.parametrize("what", SIM.PLANTED)
def test_it_has_its_place(what):
    path, *texts = SIM.PLANTED[what]
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        assert SIM.planted(path, *texts) != file.read()


@pytest.mark.parametrize("file", WORLDS.WORLDS)
def test_what_no_world_sees_is_there(file):
    names = [mistake.name for mistake in WORLDS.mistakes_of(file)]
    assert names and [name for name in WORLDS.UNSEEN if name[0] == file and name not in names] == []
