"""What a client makes of what it was told, by the table that both languages answer."""

import json
import math
import os

import pytest

from sluice.client.advice import Advice
from sluice.client.origin import Origin

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "..", "..", "common", "client", "origin.json"), encoding="utf-8") as file:
    TABLE = json.load(file)
NAMES = {"waitMs": "wait_ms", "resetMs": "reset_ms"}


def advice(told):
    return Advice(**{NAMES.get(name, name): math.inf if value == "never" else value for name, value in told.items()})


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_origin(case):
    options = {name: case[key] for name, key in (("start", "start"), ("pace_below", "paceBelow")) if key in case}
    origin = Origin(random=lambda: case["random"], **options)
    for number, (what, *of) in enumerate(case["steps"]):
        if what == "ready":
            assert origin.ready_at(of[0]) == of[1], "step %d" % number
        elif what == "sent":
            origin.sent(of[0])
        elif what == "answered":
            origin.answered(of[0], of[1], advice(of[2]))
        else:
            origin.failed()
