"""A canary and shadows at fronts whose counters are in Redis, by module and by script: the same users are denied as at
a server with a store of its own, and whom limits would deny has names."""

import pytest

from harness import in_one_window
from redis_world import Redis
from test_rollout import FEW, IN_TENTH

POLICY = """
limits:
  - {name: per-user, key: user, limit: fixed-window 1/1h, candidate: fixed-window 0/1h, canary: 10%% of user}
store: {redis: ["127.0.0.1:%d"], budget: 5s, via: %s}
"""


@pytest.mark.parametrize("via", ["module", "script"])
@in_one_window(60)
def test_a_front_decides_as_a_server(server, via):
    redis = Redis(module=() if via == "module" else None)
    try:
        fronts = [server(POLICY % (redis.port, via)) for _ in range(2)]
        for front in fronts:
            with front.resp() as r, front.http() as h:
                first = [r.call("SLUICE.ADMIT", 1, "user", u)[0] for u in FEW]
                assert first == [1 if front is fronts[0] else u not in IN_TENTH for u in FEW]
                assert {u for u in FEW if r.call("SLUICE.ADMIT", 1, "user", u)[0] == 0} == IN_TENTH
                told = h.post("/v1/admit", {"attributes": {"user": FEW[0]}})[2]["limits"][0]
                assert told["observed"] is (FEW[0] not in IN_TENTH) and told["allowed"] is False
                keys = {kind: {x[1][5:].decode() for x in r.call("SLUICE.TOP", kind, "COUNT", 100)}
                        for kind in ("DENIED", "SHADOW", "CANDIDATE")}
                assert keys == {"DENIED": IN_TENTH, "SHADOW": set(FEW) - IN_TENTH, "CANDIDATE": set(FEW)}
    finally:
        redis.kill()
