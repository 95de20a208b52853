"""Four worker threads and everything that they share, at once: every door under load, while the policy is loaded anew,
figures, lists and counters are read, quotas of single keys come and go, and leases are held. What is counted must be
right at the end. Under ThreadSanitizer (tests/run) this is where a race between workers would be seen."""

import os
import random
import threading
import time

import grpc

import rls
from harness import encode
from spop import Spop
from test_held_load import run_all
from traffic import Traffic, total

ANSWER_S = 120  # what is asked beside eight others who ask all the time: a server that hangs answers nobody
SECONDS = float(os.environ.get("SLUICE_SOAK_SECONDS", 3))
POLICY = """
listen: {grpc: 127.0.0.1:0, spop: 127.0.0.1:0}
store: {memory: 64MiB}
attributes: {user: header x-user}
trusted-proxies: [127.0.0.0/8]
limits:
  - {name: load, when: {user: load}, key: user, limit: %d/1w}
  - {name: shop, when: {domain: shop}, key: tenant, limit: 1000000/1d}
  - {name: spop, when: {door: spop}, key: tenant, limit: sliding-log 100/1d}
"""
QUOTAS = (1000000000, 900000000)  # more than is asked: what is counted is compared


def until(ends, work):
    """What a client does again and again."""
    def run():
        count = 0
        while time.monotonic() < ends or count < 3:
            work(count)
            count += 1
    return run


def ask_envoy(one, ends):
    channel = rls.Client(f"127.0.0.1:{one.ports('grpc')[0]}")
    requests = [rls.request("shop", [("tenant", f"t{i}")]) for i in range(3)]

    def work(_):
        flights = [channel._rate_limit.future(request, timeout=ANSWER_S) for request in requests]
        assert all(flight.result().overall_code == rls.OK for flight in flights)
    return until(ends, work)


def ask_haproxy(one, ends):
    client = Spop(one.ports("spop")[0], timeout=ANSWER_S)
    return until(ends, lambda _: client.ask("admit", {"door": "spop", "tenant": "t"})["limit"])


def read_figures(one, ends):
    """All that is told of a server, by one connection for each look: workers take turns."""
    paths = ["/metrics", "/v1/limits", "/v1/top", "/v1/explain?user=load", "/", "/readyz",
             "/v1/inspect?key=k&limit=5/1d"]

    def work(count):
        with one.http() as http:
            assert http.ask("GET", paths[count % len(paths)])[0] in (200, 503), paths[count % len(paths)]
        with one.resp(timeout=ANSWER_S) as resp:
            assert b"sluice" in resp.call("INFO")
            resp.call("SLUICE.TOP", "NEAR", "COUNT", 100)
    return until(ends, work)


def load_anew(one, ends, loaded):
    def work(count):
        with open(one.policy_file + ".new", "w", encoding="utf-8") as file:
            file.write(POLICY % QUOTAS[count % 2])
        os.rename(one.policy_file + ".new", one.policy_file)
        with one.resp(timeout=ANSWER_S) as resp:
            loaded.append(resp.call("SLUICE.RELOAD") == b"OK")
    return until(ends, work)


def change_quotas(one, ends):
    """A key's own quota is decided by from the next request on, at whichever worker."""
    dice = random.Random(7)

    def work(_):
        with one.resp(timeout=ANSWER_S) as here, one.resp(timeout=ANSWER_S) as there:
            quota, key = dice.randrange(10, 1000), f"plan{dice.randrange(8)}"
            assert here.call("SLUICE.OVERRIDE", "SET", "5/1d", key, f"{quota}/1d") == b"OK"
            assert there.call("SLUICE.PEEK", key, 0, "5/1d")[1] == quota
            assert there.call("SLUICE.OVERRIDE", "DEL", "5/1d", key) == 1
            assert here.call("SLUICE.PEEK", key, 0, "5/1d")[1] == 5
    return until(ends, work)


def hold_leases(one, ends):
    with one.resp(timeout=ANSWER_S) as first:
        assert first.call("SLUICE.ACQUIRE", "pool", 1, "ID", "kept", "concurrency 9 lease 1d")[0] == 1

    def work(count):
        with one.resp(timeout=ANSWER_S) as resp:
            name = f"{threading.get_ident()}.{count}"
            if resp.call("SLUICE.ACQUIRE", "pool", 1, "ID", name, "concurrency 9 lease 1d")[0]:
                assert resp.call("SLUICE.RELEASE", "pool", name, "concurrency 9 lease 1d") == 1
            else:
                raise AssertionError("of nine leases at most three are held")
    return until(ends, work)


def charge_one_key(one, ends, charged):
    """From connections at different workers: what all of them were told is what is charged."""
    def work(_):
        with one.resp(timeout=ANSWER_S) as resp:
            resp.send(encode("SLUICE.CHECK", "hot", 1, "1000000000/1w") * 50)
            charged.append(sum(resp.read()[0] for _ in range(50)))
    return until(ends, work)


def test_every_door_at_once_on_four_threads(server):
    one, charged, loaded = server(POLICY % QUOTAS[0], ["--threads", "4"]), [], []
    with Traffic(one, "load", QUOTAS) as traffic:
        ends = time.monotonic() + SECONDS
        run_all([ask_envoy(one, ends), ask_haproxy(one, ends), read_figures(one, ends), load_anew(one, ends, loaded),
                 change_quotas(one, ends), hold_leases(one, ends), hold_leases(one, ends),
                 charge_one_key(one, ends, charged), charge_one_key(one, ends, charged)])
        said = traffic.stop()
    assert not [caller["failures"] for caller in said if caller["failures"]]
    with one.resp(timeout=ANSWER_S) as resp:
        assert resp.call("SLUICE.PEEK", "hot", 0, "1000000000/1w")[2] == 1000000000 - sum(charged)
        _, quota, remaining = resp.call("SLUICE.ADMIT", 0, "user", "load")[:3]
        assert quota - remaining == total(said, "allowed")
        assert len(resp.call("SLUICE.HOLDERS", "pool", "concurrency 9 lease 1d")) == 1
        assert resp.call("SLUICE.RELEASE", "pool", "kept", "concurrency 9 lease 1d") == 1
    print(f"kept: {total(said, 'requests')} requests of 5 callers, {sum(charged)} of one key, "
          f"{total(said, 'reconnects')} reconnects")
    assert total(said, "allowed") > 100 and sum(charged) > 100 and loaded and all(loaded)
