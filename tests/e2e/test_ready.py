"""When a front over real nodes is ready: once a node has answered, or after the time that the policy names; at every
door that is asked for it. What is asked before is answered all the same."""

import signal
import subprocess
import urllib.request

import pytest

from harness import DEADLINE_S, wait_until
from ports import free_port
from redis_world import redises  # noqa: F401 - a fixture
from spop import Spop
from test_upgrade import Upgraded, reaper  # noqa: F401 - a fixture

grpc = pytest.importorskip("grpc", reason="python3-grpcio is not installed")
import rls  # noqa: E402 - needs grpc

SERVING, NOT_SERVING = 1, 2
POLICY = """
listen: {{resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0", spop: "127.0.0.1:0"}}
threads: 2
store: {{redis: "127.0.0.1:{port}"{more}}}
limits:
  - {{name: per-user, key: user, limit: sliding-log 5/1h, on-error: deny}}
"""
WAITS = "no node of Redis has answered yet: ask another"


@pytest.fixture
def fronts(server):
    def start(port, more):
        return server(POLICY.format(port=port, more=more), listen=())
    return start


def readyz(one):
    with one.http() as http:
        status, _, body = http.ask("GET", "/readyz")
        return status, body["detail"] if status == 503 else body.decode()


def is_ready(one):
    return readyz(one)[0] == 200


def metric(one):
    with urllib.request.urlopen(f"http://127.0.0.1:{one.http_port}/metrics", timeout=DEADLINE_S) as answer:
        return next(int(line.split()[1]) for line in answer.read().decode().splitlines()
                    if line.startswith("sluice_ready "))


def info(one):
    with one.resp() as r:
        return int(r.call("INFO", "sluice").split(b"sluice_ready:")[1].split(b"\r\n")[0])


def at_all_doors(one, sluice_bin):
    """1 or 0 by each door: HTTP, its command line, gRPC, metrics, figures, INFO. HAProxy's check does not fail: HAProxy
    lets requests pass while it does, and on-error may deny them."""
    cli = subprocess.run([sluice_bin, "ready", "--server", f"127.0.0.1:{one.http_port}"], capture_output=True,
                         text=True, timeout=DEADLINE_S, check=False)
    with rls.Client(f"127.0.0.1:{one.ports('grpc')[0]}") as client:
        health = client.check()
    agent = Spop(one.ports("spop")[0], hello=False)
    spop = agent.hello(healthcheck=True)
    agent.close()
    assert "version" in spop, spop
    with one.http() as http:
        figures = http.ask("GET", "/v1/figures")[2]["ready"]
    said = {"http": is_ready(one), "ready": cli.returncode == 0, "grpc": health == SERVING,
            "metrics": metric(one), "figures": figures, "info": info(one)}
    assert cli.stdout == ("ready\n" if cli.returncode == 0 else f"not ready: {WAITS}\n")
    return said


def test_ready_when_a_node_has_answered_and_from_then_on(fronts, redises, sluice_bin):  # noqa: F811
    redis = redises()
    redis.end()
    one = fronts(redis.port, ", ready-after: 1h")
    assert readyz(one) == (503, WAITS)
    assert not any(at_all_doors(one, sluice_bin).values())
    assert "sluice: listening: not ready before a node of Redis has answered" in one.stderr.lines
    assert "sluice: ready" not in one.stderr.lines
    with one.http() as http:  # asked all the same, it is answered, by on-error
        assert http.ask("GET", "/healthz")[0] == 200
        assert http.post("/v1/admit", {"attributes": {"user": "a"}})[0] == 503
    with rls.Client(f"127.0.0.1:{one.ports('grpc')[0]}") as client:
        watch = client.watch()
        assert next(watch).status == NOT_SERVING
        redis.start()
        assert next(watch).status == SERVING  # told without asking again
    wait_until(lambda: is_ready(one), "ready")
    assert all(at_all_doors(one, sluice_bin).values())
    one.stderr.wait_for(lambda line: line.startswith("sluice: redis answers: ready for requests after "))
    one.stderr.wait_for(lambda line: line == "sluice: ready")
    wait_until(lambda: post(one)[0] == 200, "the node decides")
    redis.end()
    wait_until(lambda: post(one)[0] == 503, "the node is missed")
    assert all(at_all_doors(one, sluice_bin).values())
    redis.start()


def post(one):
    with one.http() as http:
        return http.post("/v1/admit", {"attributes": {"user": "b"}, "peek": True})


def test_ready_after_the_time_that_the_policy_names(fronts, sluice_bin):
    one = fronts(free_port(), ", ready-after: 300ms")
    one.stderr.wait_for(lambda line: "redis has not answered for " in line and "(ready-after)" in line)
    wait_until(lambda: is_ready(one), "ready")
    assert all(at_all_doors(one, sluice_bin).values())


def test_a_reload_names_another_time(fronts):
    port = free_port()
    one = fronts(port, ", ready-after: 1h")
    assert not is_ready(one)
    with open(one.policy_file, "w", encoding="utf-8") as file:
        file.write(POLICY.format(port=port, more=", ready-after: 0s"))
    one.process.send_signal(signal.SIGHUP)
    wait_until(lambda: is_ready(one), "ready")


def test_no_wait_where_none_is_wanted(fronts, server):
    assert is_ready(fronts(free_port(), ", ready-after: 0s"))
    one = server()  # its store is here
    assert is_ready(one) and info(one) == 1 and metric(one) == 1


def test_a_node_that_refuses_the_password_has_not_answered(fronts, redises):  # noqa: F811
    redis = redises()
    with redis.resp() as r:
        r.call("CONFIG", "SET", "requirepass", "secret")
    one = fronts(redis.port, ", ready-after: 1h")
    one.stderr.wait_for(lambda line: "NOAUTH" in line)
    assert readyz(one) == (503, WAITS)


@pytest.mark.parametrize("ready", [True, False])
def test_whoever_takes_over_is_as_ready_as_who_goes(fronts, redises, reaper, ready):  # noqa: F811
    """Balancers that look every few milliseconds see no gap, nor a green that was not there."""
    redis = redises()
    if not ready:
        redis.end()
    upgraded = Upgraded(fronts(redis.port, ", ready-after: 1h"))
    wait_until(lambda: is_ready(upgraded.one) == ready, "as it should be")
    if ready:
        redis.end()
    upgraded.upgrade()
    assert is_ready(upgraded.one) == ready
    upgraded.stop()
    redis.start()
