"""What examples/kubernetes has Envoys do, in the real Envoy: its filters and rate limits beside examples/envoy, as no
cluster of Kubernetes is here. (That they agree with the policy beside them: tests/tools/meshes_test.py.)"""
import os

import pytest
import yaml

from harness import DEADLINE_S, ROOT, wait_until
from test_envoy import envoy, front  # noqa: F401 - fixtures

FOLDER = os.path.join(ROOT, "examples", "kubernetes")


def patched(name):
    """(the filter, what is added to a virtual host) of an example."""
    http_filter, host = None, {}
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        patches = [patch for document in yaml.safe_load_all(file)
                   for patch in document["spec"].get("configPatches", []) + document["spec"].get("jsonPatches", [])]
    for patch in patches:
        if patch.get("applyTo") == "HTTP_FILTER":
            http_filter = patch["patch"]["value"]
        elif patch.get("applyTo") == "VIRTUAL_HOST":
            host.update(patch["patch"]["value"])
        elif "/http_filters/" in patch["operation"]["path"]:
            http_filter = patch["operation"]["value"]
        elif patch["operation"]["path"].startswith("/virtual_hosts/0/"):
            host[patch["operation"]["path"].rsplit("/", 1)[1]] = patch["operation"]["value"]
    return http_filter, host


def with_example(name, change=lambda host: None):
    """An edit of examples/envoy/ratelimit.yaml: the example's filter and rate limits in place of its own."""
    http_filter, added = patched(name)
    change(added)

    def edit(text):
        whole = yaml.safe_load(text)
        manager = whole["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
        service = http_filter["typed_config"]["rate_limit_service"]["grpc_service"]
        service["envoy_grpc"] = {"cluster_name": "sluice"}
        http_filter["typed_config"]["timeout"] = f"{DEADLINE_S}s"  # 0.1 s is more than a busy machine keeps
        manager["http_filters"][0] = http_filter
        host = manager["route_config"]["virtual_hosts"][0]
        del host["routes"][0]["route"]["rate_limits"]
        host.update(added)
        return yaml.safe_dump(whole)
    return edit


@pytest.mark.parametrize("name", ["istio.yaml", "envoy-gateway.yaml"])
def test_gateways(server, front, name):  # noqa: F811
    one = server("limits:\n  - {name: per-client, when: {domain: shop}, key: ip, limit: fixed-window 4/365d}\n"
                 "  - {name: per-user, when: {domain: shop}, key: user, limit: fixed-window 2/365d}\n",
                 ["--grpc", "127.0.0.1:0"])
    web = front(one.ports("grpc")[0], edit=with_example(name))  # it has asked once, whether Envoy answers
    assert [web.get("/", x_user_id="bob")[0] for _ in range(3)] == [200, 200, 429]
    assert [web.get("/")[0] for _ in range(2)] == [200, 429]


def test_tokens(server, front):  # noqa: F811
    """A budget that is spent when a response is done: by its three bytes here, where the AI gateway has tokens."""
    def spend_bytes(host):
        (there,) = host["typed_per_filter_config"].values()
        (tokens,) = (one for one in there["rate_limits"] if "format" in one["hits_addend"])
        tokens["hits_addend"]["format"] = "%BYTES_SENT%"
    one = server("limits:\n  - {name: tokens, when: {domain: ai}, key: user, limit: fixed-window 10/365d, "
                 "count-denied: true}\n", ["--grpc", "127.0.0.1:0"])
    web = front(one.ports("grpc")[0], edit=with_example("ai-gateway.yaml", spend_bytes))

    def left():
        with one.resp() as resp:
            return resp.call("SLUICE.EXPLAIN", "1", "domain", "ai", "user", "bob")[0][5]
    for want in (7, 4, 1, 0):  # the fourth finds one left, and spends three
        assert web.get("/", x_user_id="bob")[0] == 200
        wait_until(lambda: left() == want, "what was spent is not counted")  # noqa: B023
    assert web.get("/", x_user_id="bob")[0] == 429
    assert web.get("/", x_user_id="ann")[0] == 200
