"""The gRPC door and programs in Go: grpcurl, whose client is grpc-go; and h2spec, which tries HTTP/2's rules."""
import json
import os
import subprocess
import xml.etree.ElementTree

import foreign
from harness import DEADLINE_S, ROOT, in_one_window

CLIENTS = os.path.join(ROOT, "tests", "e2e", "clients")
SERVICE = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
POLICY = ('listen: {resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}\n'
          "limits:\n  - {name: per-ip, key: ip, limit: fixed-window 2/1d}\n")

# What h2spec expects and is not so, by its section and number.
NOT_SO = {
    "generic/2/2": "It asks without gRPC's content type, and waits for a body: 415 has none. The frame is taken.",
    "generic/2/3": "The same.",
    "http2/5.1.1/2": "A stream's number below one that was used: nghttp2 passes over it, for it may be the trailers "
                     "of a stream that we have reset.",
    "http2/5.1.2/1": "128 streams at a time: each of these is answered and gone before the next begins. Of streams "
                     "that stay: tests/unit/door_grpc_test.c, many streams.",
}
TRIES = 30


def listening(server):
    one = server(POLICY, listen=())
    return one, f"127.0.0.1:{one.ports('grpc')[0]}"


def grpcurl(address, proto, method, message):
    """(exit status, answers, what it says of an error)"""
    done = subprocess.run([foreign.built("grpcurl"), "-plaintext", "-max-time", "20", "-import-path", CLIENTS, "-proto",
                           proto, "-d", json.dumps(message), address, method], capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@in_one_window(86400)
def test_grpcurl(server):
    _, address = listening(server)
    request = {"domain": "x", "descriptors": [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}
    for left in (1, 0):
        status, said, _ = grpcurl(address, "rls.proto", SERVICE, request)
        assert status == 0 and said["overallCode"] == "OK"
        told = said["statuses"][0]
        assert told["currentLimit"] == {"requestsPerUnit": 2, "unit": "DAY", "name": "per-ip"}
        assert told.get("limitRemaining", 0) == left
    status, said, _ = grpcurl(address, "rls.proto", SERVICE, request)
    assert status == 0 and said["overallCode"] == said["statuses"][0]["code"] == "OVER_LIMIT"
    assert "Retry-After" in {one["key"] for one in said["responseHeadersToAdd"]}
    assert said["dynamicMetadata"]["limit"] == "per-ip"


def test_grpcurl_is_told_what_is_wrong(server):
    _, address = listening(server)
    status, said, words = grpcurl(address, "rls.proto", SERVICE, {})
    assert status != 0 and said is None
    assert "Code: Unknown" in words and "Message: rate limit domain must not be empty" in words
    status, said, words = grpcurl(address, "health.proto", "grpc.health.v1.Health/Check", {"service": "nobody"})
    assert status != 0 and "Code: NotFound" in words and "Message: unknown service" in words
    assert grpcurl(address, "health.proto", "grpc.health.v1.Health/Check", {"service": "ratelimit"})[:2] == (
        0, {"status": "SERVING"})


def h2spec(address, report, *sections):
    """(how many cases were tried, what failed: {section/number: why})"""
    subprocess.run([foreign.built("h2spec"), "-h", "127.0.0.1", "-p", address.split(":")[1], "-P", "/" + SERVICE,
                    "-o", "3", "-j", str(report), *sections], capture_output=True, timeout=300, check=False)
    count, failed, at = 0, {}, {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        section = case.get("package")
        at[section] = at.get(section, 0) + 1
        count += case.find("skipped") is None
        problem = case.find("failure") if case.find("failure") is not None else case.find("error")
        if problem is not None:
            failed[f"{section}/{at[section]}"] = problem.text
    return count, failed


def test_h2spec(server, tmp_path):
    """It sees our answer to a request's head, where that comes before it has sent what is wrong: then it is asked
    again, until it was the quicker one."""
    one, address = listening(server)
    report = tmp_path / "report.xml"
    count, failed = h2spec(address, report)
    assert count >= 140 and len(failed) <= len(NOT_SO) + 8
    for name in set(failed) - set(NOT_SO):
        assert any(not h2spec(address, report, name)[1] for _ in range(TRIES)), (name, failed[name])
    assert one.alive()
