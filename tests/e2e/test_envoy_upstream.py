"""envoyproxy/ratelimit's own examples and scripts, as they are: its Envoy configuration in the real Envoy, its limits
in Sluice in its place, and what its integration-test/scripts ask and assert; by its fixed windows, counting what is
denied or not, and by sliding ones.

Changed are addresses and ports, and Envoy's 20 ms for an answer, which a busy machine does not keep; Sluice's clock
stands still, so that no minute ends between two requests. Of the script that reads statsd the first half is run, and
the metric read here."""
import os
import re
import subprocess
import time

import pytest

import foreign
from redis_world import Clock
from test_envoy import Front, envoy  # noqa: F401 - a fixture

MODULE = "github.com/envoyproxy/ratelimit"
SCRIPTS = ["replaces", "simple-get", "trigger-ratelimit", "trigger-shadow-mode-key",
           "value-included-in-stats-key-when-unspecified"]
SAYS = {"fixed windows, what is denied counts": ", count-denied: true", "fixed windows, all or nothing": "",
        "sliding windows": ", algorithm: sliding-window", "a log": ", algorithm: sliding-log"}
SCRIPT_SECONDS_MAX = 300


def edited(text):
    text = re.sub(r"\b(ratelimit|envoy-mock|0\.0\.0\.0)$", "127.0.0.1", text, flags=re.M)
    text = text.replace("cluster_name: 127.0.0.1", "cluster_name: ratelimit")
    text = text.replace("name: 127.0.0.1", "name: ratelimit")
    return text.replace("domain: rl\n", "domain: rl\n                      timeout: 20s\n")


def run_script(name, port):
    with open(os.path.join(foreign.source(MODULE), "integration-test", "scripts", name + ".sh"),
              encoding="utf-8") as file:
        text = file.read().split("# Sleep a bit")[0]
    assert "http://envoy-proxy:8888/" in text
    text = text.replace("http://envoy-proxy:8888/", f"http://127.0.0.1:{port}/")
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=SCRIPT_SECONDS_MAX,
                          check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def still(monkeypatch):
    """A clock that stands, for who is started within it."""
    clock = Clock()
    clock.stand_all(time.time() * 1000)

    def within(start):
        with monkeypatch.context() as patch:
            for name, value in clock.environment().items():
                patch.setenv(name, value)
            return start()
    yield within
    clock.close()


@pytest.mark.parametrize("says", SAYS.values(), ids=SAYS)
def test_their_scripts(server, envoy, still, tmp_path, says):  # noqa: F811
    source = foreign.source(MODULE)
    one = still(lambda: server(
        'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n'
        f"envoy: {{config: {source}/examples/ratelimit/config{says}}}\n", listen=()))
    web = Front(envoy, str(tmp_path), one.ports("grpc")[0], edit=edited,
                source=os.path.join(source, "examples", "envoy", "proxy.yaml"))
    try:
        told = {name: run_script(name, web.port) for name in SCRIPTS}
    finally:
        web.stop()
    assert told == {name: (0, told[name][1]) for name in SCRIPTS}
    with one.http() as client:
        metrics = client.ask("GET", "/metrics")[2].decode()
    assert 'sluice_envoy_over_limit_total{domain="rl",descriptor="unspec_unspecified_value"} 1' in metrics
