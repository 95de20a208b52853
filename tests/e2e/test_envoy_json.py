"""POST /json, Envoy's rate limit service over HTTP as envoyproxy/ratelimit has it: the same decisions as over gRPC, of
the same counters, also where a store in Redis answers later; and what is refused, with which status."""
import base64
import json

import pytest

pytest.importorskip("grpc", reason="python3-grpcio is not installed")
import oracle  # noqa: E402 - needs grpc
import rls  # noqa: E402
from harness import in_one_window  # noqa: E402

LISTEN = 'listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n'
POLICY = LISTEN + """
limits:
  - {name: per-client, key: ip, limit: fixed-window 3/1h}
  - {name: login, when: {path: /login}, key: ip, limit: sliding-log 1/1h, on-error: deny}
  - {name: seats, when: {path: /seat}, key: user, limit: concurrency 1 lease 1m}
"""


def asked(*descriptors, domain="shop", hits=0):
    return rls.request(domain, *descriptors, hits=hits)


def client_of(one):
    return rls.Client(f"127.0.0.1:{one.ports('grpc')[0]}")


@in_one_window(3600)
def test_decides_as_grpc_does(server):
    """Each request to one of two servers by gRPC, to the other by JSON: the same codes, statuses, headers."""
    one, other = server(POLICY, listen=()), server(POLICY, listen=())
    requests = [asked([("remote_address", f"192.0.2.{n % 3}"), ("path", path)], hits=hits)
                for n, path in enumerate(("/", "/login", "/login", "/x", "/login", "/")) for hits in (0, 1)]
    requests.append(asked(([("ip", "::1")], {"hits": 0}), ([("ip", "::2")], {"limit": (9, rls.WEEK)})))
    requests.append(asked(([("ip", "::1")], {"hits": 2, "negative": True})))
    requests.append(asked([("path", "/seat"), ("user", "ann")]))
    denied = 0
    with client_of(one) as by_grpc, oracle.Json(other.ports('http')[0]) as by_json:
        for made in requests:
            told = by_grpc.send(made)
            status, answer = by_json.send(made)
            assert oracle.told_json(answer) == oracle.told(told)
            assert status == (200 if told.overall_code == rls.OK else 429)
            names = [header.key for header in told.response_headers_to_add]
            assert [header["key"] for header in answer["responseHeadersToAdd"]] == names
            waits = [status.get("durationUntilReset") for status in answer["statuses"]]
            assert all(wait is None or wait.endswith("s") for wait in waits)
            assert set(answer.get("dynamicMetadata", {})) == set(told.dynamic_metadata.keys())
            assert [header["key"] for header in answer.get("requestHeadersToAdd", [])] == \
                [header.key for header in told.request_headers_to_add]
            denied += status == 429
    assert denied >= 4


def test_headers_and_body_of_a_denial(server, tmp_path):
    (tmp_path / "denied.json").write_text('{"no": "{{limit}}"}')
    policy = f"denied: {{body: {tmp_path}/denied.json, type: application/json}}\n{POLICY}"
    with oracle.Json(server(policy, listen=()).ports('http')[0]) as client:
        made = '{"domain": "d", "descriptors": [{"entries": [{"key": "ip", "value": "192.0.2.1"}], "hitsAddend": 3}]}'
        assert client.post(made)[0] == 200
        status, headers, body = client.post(made)
        answer = json.loads(body)
    assert status == 429 and headers["Content-Type"] == "application/json"
    assert {header["key"]: header["value"] for header in answer["responseHeadersToAdd"]}["RateLimit"] == \
        headers["RateLimit"]
    assert base64.b64decode(answer["rawBody"]) == b'{"no": "per-client"}' and "Retry-After" in headers


def test_what_is_wrong_is_said(server):
    with server(POLICY, listen=()).http() as http:
        for body, text in (
                ('{"domain": "d"}', "rate limit descriptor list must not be empty"),
                ('{"descriptors": [{}]}', "rate limit domain must not be empty"),
                ('{"domain": "d", "descriptors": [{"hits": 1}]}', "unknown member 'hits': expected entries, limit, "
                 "hitsAddend, isNegativeHits"),
                ('{"domain": "d", "descriptors": [{"limit": {"unit": "EON"}}]}', "'unit' must be one of SECOND, "),
                ('{"domain": "d", "descriptors": [{"limit": {}}]}', "rate limit override must have a unit, SECOND to "),
                ('{"domain": "d", "descriptors": [{"entries": [{"key": 5}]}]}', "'key' must be a string")):
            status, headers, answer = http.post("/json", body)
            assert status == 400 and answer["detail"].startswith(text), answer
        assert http.ask("GET", "/json")[0] == 405
        many = {"domain": "d", "descriptors": [{}] * 257}
        status, _, answer = http.post("/json", many)
        assert status == 429 and answer["dynamicMetadata"] == {"bound": "descriptors"}
        assert answer["statuses"] == [{"code": "OVER_LIMIT"}] * 257


def test_a_store_in_redis_answers_later(server, redises):
    """One that is gone is what the limits' on-error says; and 503 where only an override applies."""
    redis = redises()
    one = server(f"{POLICY}store: {{redis: \"127.0.0.1:{redis.port}\", budget: 10s}}\n", listen=())
    path = asked([("ip", "192.0.2.1"), ("path", "/login")])
    override = asked(([("a", "b")], {"limit": (1, rls.HOUR)}))
    with oracle.Json(one.ports('http')[0]) as client:
        assert [client.send(path)[0] for _ in range(2)] == [200, 429]
        assert [client.send(override)[0] for _ in range(2)] == [200, 429]
        assert client.send(asked([("ip", "192.0.2.7")]))[1]["statuses"][0]["limitRemaining"] == 2
        redis.kill()
        assert client.send(asked([("ip", "192.0.2.7")]))[0] == 200, "on-error: allow"
        status, answer = client.send(asked([("ip", "192.0.2.8"), ("path", "/login")]))
        assert status == 429 and answer["statuses"] == [{"code": "OVER_LIMIT"}], answer
        status, headers, body = client.post('{"domain": "d", "descriptors": [{"entries": [{"key": "a"}], '
                                            '"limit": {"requestsPerUnit": 1, "unit": "HOUR"}}]}')
        assert status == 503 and headers["Retry-After"] == "1" and json.loads(body)["title"] == "Store away"
