"""envoyproxy/ratelimit's own examples and scripts, as they are: its Envoy configuration in the real Envoy, its limits
in Sluice in its place, and what its integration-test/scripts ask and assert; by its fixed windows, counting what is
denied or not, and by sliding ones.

Changed are addresses and ports, and Envoy's 20 ms for an answer, which a busy machine does not keep. Of the script that
reads statsd the first half is run, and the metric read here."""
import os
import re
import subprocess
import time

import pytest

import foreign
from harness import DEADLINE_S
from test_envoy import Front, envoy  # noqa: F401 - a fixture

MODULE = "github.com/envoyproxy/ratelimit"
SCRIPTS = ["replaces", "simple-get", "trigger-ratelimit", "trigger-shadow-mode-key",
           "value-included-in-stats-key-when-unspecified"]
SAYS = {"fixed windows, what is denied counts": ", count-denied: true", "fixed windows, all or nothing": "",
        "sliding windows": ", algorithm: sliding-window", "a log": ", algorithm: sliding-log"}


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
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return done.returncode, done.stdout + done.stderr


def run_all(server, envoy, folder, says):  # noqa: F811
    """What became of each script, at servers of their own; and the metrics then."""
    source = foreign.source(MODULE)
    one = server('listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n'
                 f"envoy: {{config: {source}/examples/ratelimit/config{says}}}\n", listen=())
    web = Front(envoy, str(folder), one.ports("grpc")[0], edit=edited,
                source=os.path.join(source, "examples", "envoy", "proxy.yaml"))
    try:
        told = {name: run_script(name, web.port) for name in SCRIPTS}
        with one.http() as client:
            return told, client.ask("GET", "/metrics")[2].decode()
    finally:
        web.stop()
        one.stop()


@pytest.mark.parametrize("says", SAYS.values(), ids=SAYS)
def test_their_scripts(server, envoy, tmp_path, says):  # noqa: F811
    for _ in range(3):
        minute = time.time() // 60
        told, metrics = run_all(server, envoy, tmp_path, says)
        if time.time() // 60 == minute:
            break  # else fixed windows have begun anew between two requests
    assert told == {name: (0, told[name][1]) for name in SCRIPTS}
    assert 'sluice_envoy_over_limit_total{domain="rl",descriptor="unspec_unspecified_value"} 1' in metrics
