"""docs/openapi.json is what the server does: its paths and methods are the table of routes, members of bodies are those
that the server says it takes, and what a real server answers is of the schemas that stand there, with no member that
they don't name."""

import json
import os
import re

import pytest

from harness import ROOT

POLICY = """
limits:
  - {name: login, key: ip, limit: sliding-log 2/1m}
  - {name: seen, key: ip, limit: 1/1h, observe: true}
  - {name: priced, when: {path: /priced}, key: ip, limit: 9/1h, on-error: local,
     cost: [{when: {method: PUT}, cost: 2}, header x-cost]}
  - {name: tried, when: {path: /tried}, key: ip, limit: fixed-window 1/1h, candidate: fixed-window 0/1h,
     penalty: "[1m, 2m] after 1 denial in 1m", overrides: [{when: {user: a}, limit: unlimited}]}
  - {name: members, when: {path: /members}, key: ip, of: user, optional: true, limit: distinct 2k/1h}
  - {name: held, when: {path: /held}, key: ip, limit: 9/1h, reserve: {estimate: [header x-e, 2]}, canary: 10% of ip}
"""
# of those by any method one is told
ALLOWED = {"ALLOW_POST": {"post"}, "ALLOW_GET": {"get"}, "ALLOW_BOTH": {"get", "post"},
           "ALLOW_ITEM": {"get", "put", "delete"}, "ALLOW_ANY": {"get"}}
# what stands for the parts of a path that name something
PARTS = {"/v1/overrides/": "/v1/overrides/{limit}/{key}"}


@pytest.fixture(scope="module")
def document():
    with open(os.path.join(ROOT, "docs", "openapi.json"), encoding="utf-8") as file:
        return json.load(file)


def wrong(document, schema, value, where="answer"):
    """What is wrong with a value, or None. A keyword that is not known here is wrong as well."""
    if "$ref" in schema:
        return wrong(document, document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]], value, where)
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
             "null": type(None)}
    unknown = set(schema) - {"type", "properties", "required", "additionalProperties", "items", "enum", "minimum",
                             "maximum", "minItems", "maxItems", "anyOf", "description"}
    assert not unknown, unknown
    if "anyOf" in schema:
        tried = [wrong(document, one, value, where) for one in schema["anyOf"]]
        return None if None in tried else tried[0]
    wanted = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, kinds[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in wanted):
        return f"{where}: {value!r} is no {wanted}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{where}: {value!r} is none of {schema['enum']}"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{where}: {value} is out of range"
    parts = []
    if isinstance(value, dict):
        missing = set(schema.get("required", ())) - set(value)
        if missing:
            return f"{where}: {missing} are missing"
        for name, one in value.items():
            other = schema.get("properties", {}).get(name, schema.get("additionalProperties", False))
            if other is False:
                return f"{where}: {name} is not told of"
            if name in schema.get("properties", {}):
                parts.append(wrong(document, other, one, f"{where}.{name}"))
    if isinstance(value, list):
        parts += [wrong(document, schema["items"], one, f"{where}[{i}]") for i, one in enumerate(value)]
    return next((part for part in parts if part), None)


def test_the_judge_can_say_no(document):
    decision = {"$ref": "#/components/schemas/Decision"}
    good = {"allowed": True, "limit": "", "quota": 1, "remaining": 1, "retry_after_ms": 0, "reset_after_ms": 0,
            "delay_ms": 0, "limits": []}
    assert wrong(document, decision, good) is None
    assert wrong(document, decision, {**good, "quota": "1"}) and wrong(document, decision, {**good, "quota": -1})
    assert wrong(document, decision, {**good, "allowed": 1}) and wrong(document, decision, {**good, "limits": [{}]})
    assert wrong(document, decision, {**good, "more": 1})
    assert wrong(document, decision, {name: value for name, value in good.items() if name != "delay_ms"})


def test_every_route_is_told_of(document):
    with open(os.path.join(ROOT, "hosts", "server", "http", "door.c"), encoding="utf-8") as file:
        routes = re.findall(r'\{"(/v1/[a-z/]+|/json)\*?", (ALLOW_\w+),', file.read())
    told = {path: {method for method in methods if method != "parameters"}
            for path, methods in document["paths"].items()}
    assert len(routes) > 10 and told == {PARTS.get(path, path): ALLOWED[allowed] for path, allowed in routes}


def test_the_server_serves_it(document, server):
    with server(POLICY).http() as http:
        status, headers, answer = http.ask("GET", "/v1/openapi.json")
    assert (status, answer) == (200, document) and dict(headers)["Content-Type"] == "application/json"


def test_members_are_those_that_the_server_takes(document, server):
    with server(POLICY).http() as http:
        for path, methods in document["paths"].items():
            body = methods.get("post", {}).get("requestBody")
            if body is None:
                continue
            status, _, answer = http.ask("POST", path, {"?": 1})
            listed = set(re.search(r"expected (.*)$", answer["detail"])[1].split(", "))
            schema = body["content"]["application/json"]["schema"]
            assert status == 400 and listed == set(schema["properties"]) >= set(schema["required"]), path


def test_answers_are_of_their_schemas(document, server):
    lease, log = {"key": "k", "limits": ["concurrency 2 lease 1m"]}, {"key": "k", "limits": ["sliding-log 2/1m"]}
    met = set()
    one = server(POLICY)
    with one.http() as http:
        def ask(method, path, body=None, query="", **parts):
            status, _, answer = http.ask(method, path.format(**parts) + query, body)
            operation = document["paths"][path][method.lower()]
            if body is not None and status != 400:
                assert wrong(document, operation["requestBody"]["content"]["application/json"]["schema"], body) is None
            told = operation["responses"].get(str(status), operation["responses"]["default"])
            (media,) = told["content"].values()
            assert wrong(document, media["schema"], answer, f"{path} {status}") is None
            met.add(path)
            return status, answer

        assert ask("POST", "/v1/check", {**log, "cost": 2, "next": True})[0] == 200
        assert ask("POST", "/v1/check", {**log, "limits": [{"key": "k", "limit": "sliding-log 2/1m"}]})[0] == 429
        assert ask("POST", "/v1/check", {**log, "cost": 9, "upto": True, "peek": True})[0] == 429
        assert ask("POST", "/v1/check", {"key": "k", "limits": ["x"]})[0] == 400
        assert ask("POST", "/v1/refund", {**log, "cost": 1})[0] == 200
        assert [ask("POST", "/v1/admit", {"attributes": {"ip": "192.0.2.1"}})[0] for _ in range(3)] == [200, 200, 429]
        lease["id"] = ask("POST", "/v1/acquire", lease)[1]["id"]
        assert ask("POST", "/v1/holders", {"key": "k", "limits": lease["limits"]})[1]["count"] == 1
        assert ask("POST", "/v1/renew", lease)[1] == {"renewed": 1}
        assert ask("POST", "/v1/release", lease)[1] == {"released": 1}
        ticket = ask("POST", "/v1/reserve", {"key": "r", "limits": log["limits"], "ttl_ms": 60000})[1]["id"]
        assert ask("POST", "/v1/commit", {"id": ticket, "actual": 2})[0] == 200
        assert ask("POST", "/v1/commit", {"id": ticket, "actual": 2})[0] == 404
        assert ask("POST", "/v1/reset", log)[1] == {"reset": 1}
        assert ask("POST", "/v1/reload")[0] == 200
        assert ask("GET", "/v1/explain", query="?ip=192.0.2.1")[1]["allowed"] is False
        assert ask("POST", "/v1/release", lease)[1]["detail"] and ask("POST", "/v1/renew", lease)[1]["detail"]
        for path, member in (("tried", "penalty"), ("tried", "candidate"), ("members", "error"), ("held", "observed")):
            about = {"ip": "192.0.2.3", "path": "/" + path, "user": "b"}
            assert ask("POST", "/v1/admit", {"attributes": about})[0] in (200, 429)
            told = ask("GET", "/v1/explain", query="?ip=192.0.2.3&user=b&path=/" + path)[1]["limits"]
            assert member in next(limit for limit in told if limit["name"] == path)
        with one.resp() as resp:
            resp.call("SLUICE.CHECK", b"\xff", 2, "1/1h")
        assert ask("GET", "/v1/inspect", query="?ip=192.0.2.1")[0] == ask("POST", "/v1/inspect", log)[0] == 200
        request = {"domain": "d", "descriptors": [{"entries": [{"key": "ip", "value": "192.0.2.9"}], "hitsAddend": 2}]}
        assert [ask("POST", "/json", request)[0] for _ in range(2)] == [200, 429]
        assert ask("POST", "/json", {**request, "domain": ""})[0] == 400
        item, whose = "/v1/overrides/{limit}/{key}", {"limit": "policy:login", "key": "ip=192.0.2.7"}
        assert ask("PUT", item, {"limit": "sliding-log 9/1m", "ttl_ms": 60000}, **whose)[0] == 200
        assert ask("PUT", item, {"limit": "9/1h"}, **whose)[0] == 400
        assert ask("GET", item, **whose)[1]["limit"] == "sliding-log 9/1m"
        assert ask("GET", "/v1/overrides")[0] == 200
        assert ask("DELETE", item, **whose)[1] == {"deleted": 1}
        assert ask("GET", item, **whose)[0] == 404
        for path in ("/v1/limits", "/v1/figures"):
            assert ask("GET", path)[0] == 200
        assert any("key_hex" in entry for entry in ask("GET", "/v1/top")[1]["entries"])
        assert ask("GET", "/v1/tail", query="?denied=yes")[0] == 400  # what it answers: test_tail.py
    assert met == {path for path in document["paths"] if not path.startswith("/v1/auth/")}
