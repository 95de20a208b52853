"""What a response says, by the table that both languages answer."""

import json
import math
import os
import random

import pytest

from sluice.client.advice import Advice, advise

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, "..", "..", "common", "client", "headers.json"), encoding="utf-8") as file:
    TABLE = json.load(file)
NAMES = {"waitMs": "wait_ms", "resetMs": "reset_ms", "windowMs": "window_ms"}


def told(status, headers):
    low = {name.lower(): value for name, value in headers.items()}
    advice = advise(status, low.get, TABLE["now"])
    values = ((name, getattr(advice, name)) for name in Advice.__slots__)
    return {name: "never" if value == math.inf else value for name, value in values
            if value is not None and value is not False}


def expected(advice):
    return {NAMES.get(name, name): value for name, value in advice.items()}


@pytest.mark.parametrize("case", TABLE["cases"], ids=lambda case: case["name"])
def test_what_is_told(case):
    assert told(case["status"], case["headers"]) == expected(case["advice"])


@pytest.mark.parametrize("case", TABLE["long"]["cases"], ids=lambda case: "%d" % case["count"])
def test_long_fields(case):
    field = case["by"].join([case["text"]] * case["count"])
    assert told(200, {"RateLimit": field}) == expected(case["advice"])


def test_whatever_stands_there_nothing_is_thrown():
    dice = random.Random(20261123)
    names = ["retry-after", "ratelimit", "ratelimit-policy", "ratelimit-remaining", "ratelimit-reset", "date", "age",
             "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-limit"]
    pieces = ['"a"', ";r=", ";t=", "0", "1", "-", ".", ",", " ", "=", '"', "\\", "limit", "remaining", "reset",
              "9" * 15, "Fri, 04 Oct 2024 00:00:05 GMT", ":", "?1", "*", "\t",
              "1728000060", "é", "@", '%"%c3', "\0", "(", ")", "٣", "\n"]
    for _ in range(10000):
        headers = {dice.choice(names): "".join(dice.choices(pieces, k=dice.randrange(9)))
                   for _ in range(dice.randrange(1, 6))}
        advice = advise(dice.choice([200, 429, 503, 403]), headers.get, TABLE["now"])
        for name in Advice.__slots__[1:]:
            value = getattr(advice, name)
            assert value is None or value >= 0, (headers, advice)
