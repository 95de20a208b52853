"""What strangers learn and can do at a server without users: pages whose name was made to point here (DNS rebinding),
images across sites, and those who are denied at a proxy's door. With a real server, asked byte for byte as they ask."""

import http.client
import os
import socket

import pytest

from harness import raw_exchange, wait_until
from ports import free_port

POLICY = """
{listen}
attributes: {{user: header x-user-id}}
limits:
  - {{name: everybody, key: [], limit: 1000000/1h}}
  - {{name: per-ip, key: ip, limit: sliding-log 2/1h}}
  - {{name: trial, key: ip, limit: sliding-log 1/1h, observe: true}}
"""
ON_POLICY = ("--resp", "127.0.0.1:0")  # http listens where its policy says
COUNTED, LEASED = {"key": "k", "limits": ["9000/1h"]}, {"key": "k", "limits": ["concurrency 9000 lease 1s"]}
ROUTES = [("GET", "/"), ("GET", "/dashboard/page.js"), ("GET", "/metrics"), ("GET", "/v1/top"), ("GET", "/v1/figures"),
          ("GET", "/v1/limits"), ("GET", "/v1/explain?ip=192.0.2.1"), ("POST", "/v1/check", COUNTED),
          ("POST", "/v1/admit", {"attributes": {"user": "u"}}), ("POST", "/v1/refund", COUNTED),
          ("POST", "/v1/reset", COUNTED), ("POST", "/v1/acquire", LEASED), ("POST", "/v1/holders", LEASED),
          ("POST", "/v1/release", {"id": "x", **LEASED}), ("POST", "/v1/reserve", {"ttl_ms": 1000, **COUNTED}),
          ("POST", "/v1/reload", {})]


def policy(http="127.0.0.1:0"):
    return POLICY.format(listen="listen: {http: %s}" % http)


def statuses(server, host, origin=None):
    with server.http() as h:
        return [h.ask(*route, *([None] * (3 - len(route))), {"Host": host, **({"Origin": origin} if origin else {})})[0]
                for route in ROUTES]


def test_a_page_by_another_name_learns_and_does_nothing(server):
    one = server(policy=policy())
    port = one.http_port
    for host in ("evil.com", f"evil.com:{port}", f"127.0.0.1.evil.com:{port}", f"localhost.evil.com:{port}"):
        assert set(statuses(one, host)) == {403}, host
        assert set(statuses(one, host, origin=f"http://{host}")) == {403}, host
    with one.http() as h:
        status, _, body = h.ask("GET", "/v1/top", headers={"Host": "evil.com"})
        assert status == 403 and "'evil.com'" in body["detail"] and "hosts: [NAME]" in body["detail"]
        for path in ("/healthz", "/readyz", "/healthcheck", "/v1/auth/forward", "/v1/auth/nginx"):
            assert h.ask("GET", path, headers={"Host": "evil.com"})[0] == 200, path
    # nor by a target in absolute form, nor by no name at all
    assert b" 403 " in raw_exchange(port, b"GET http://evil.com/v1/top HTTP/1.1\r\nHost: localhost\r\n\r\n")[:16]
    assert b" 403 " in raw_exchange(port, b"GET /v1/top HTTP/1.0\r\n\r\n")[:16]
    assert b" 200 " in raw_exchange(port, b"GET /healthz HTTP/1.0\r\n\r\n")[:16]


def test_names_that_no_stranger_has(server):
    one = server(policy=policy())
    for host in ("localhost", "LOCALHOST", "127.0.0.1", "[::1]", "192.0.2.1", "sluice", "a.localhost"):
        for port in ("", f":{one.http_port}"):
            found = statuses(one, host + port, origin=f"http://{host}{port}")
            assert set(found) == {200}, (host, list(zip(ROUTES, found)))


def test_names_of_the_policy_and_of_a_reload(server):
    listen = "{address: '127.0.0.1:0', hosts: [%s]}"
    one = server(policy=policy(listen % "a.example"), listen=ON_POLICY)
    assert set(statuses(one, "A.Example.:80")) == {200} and set(statuses(one, "b.example")) == {403}
    with open(one.policy_file, "w", encoding="utf-8") as f:
        f.write(policy(listen % "b.example, c.example"))
    with one.http() as h:
        assert h.post("/v1/reload", {})[0] == 200
    wait_until(lambda: set(statuses(one, "b.example")) == {200}, "the reload's hosts are not known")
    assert set(statuses(one, "c.example")) == {200} and set(statuses(one, "a.example")) == {403}


def test_a_reload_may_list_addresses_in_another_order(server):
    """Names and details stay with the address; one that is gone tells strangers nothing any more."""
    told, quiet, third = (free_port() for _ in range(3))
    lines = [f"{{address: '127.0.0.1:{told}', details: true, hosts: a.example}}",
             f"{{address: '127.0.0.1:{quiet}', hosts: b.example}}", f"'127.0.0.1:{third}'"]
    one = server(policy=policy("[%s]" % ", ".join(lines)), listen=ON_POLICY)

    def seen(port):
        one.http_port = port
        with one.http() as h:
            members = max((h.ask("GET", "/v1/auth/forward")[2] for _ in range(3)), key=len)
        return set(statuses(one, "a.example")), set(statuses(one, "b.example")), "limits" in members

    def reload(*order):
        with open(one.policy_file, "w", encoding="utf-8") as f:
            f.write(policy("[%s]" % ", ".join(order)))
        one.http_port = told
        with one.http() as h:
            assert h.post("/v1/reload", {})[0] == 200

    assert (seen(told), seen(quiet)) == (({200}, {403}, True), ({403}, {200}, False))
    reload(lines[2], lines[1], lines[0])
    wait_until(lambda: seen(quiet)[1] == {200}, "the reload's order is not known")
    assert (seen(told), seen(quiet)) == (({200}, {403}, True), ({403}, {200}, False))
    assert seen(third) == ({403}, {403}, False)
    reload(lines[1])
    wait_until(lambda: not seen(told)[2], "the reload is not known")
    assert (seen(told), seen(quiet)) == (({403}, {403}, False), ({403}, {200}, False))


def test_names_hold_at_the_address_of_the_command_line(server):
    listen = "[{address: '127.0.0.1:1', details: true, hosts: a.example}, {address: '127.0.0.1:2', hosts: b.example}]"
    one = server(policy=policy(listen))
    assert set(statuses(one, "a.example")) == {200} and set(statuses(one, "b.example")) == {403}
    with one.http() as h:
        for _ in range(3):
            body = h.ask("GET", "/v1/auth/forward")[2]
        assert len(body["limits"]) == 3


def test_a_unix_socket_is_beyond_any_page(server, tmp_path):
    path = os.path.join(tmp_path, "s")
    server(policy=policy(f"['127.0.0.1:0', 'unix:{path}']"), listen=ON_POLICY)
    connection = http.client.HTTPConnection("unix")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(path)
    connection.request("GET", "/v1/top", headers={"Host": "%2Frun%2Fsluice.sock"})
    assert connection.getresponse().status == 200
    connection.close()


def test_a_unix_socket_behind_a_balancer_is_not(server, tmp_path):
    """Whom a PROXY header names came by a port of the balancer's, which pages reach."""
    path = os.path.join(tmp_path, "s")
    server(policy=policy(f"['127.0.0.1:0', {{address: 'unix:{path}', proxy-protocol: true, hosts: a.example}}]"),
           listen=ON_POLICY)
    for host, status in (("evil.com", 403), ("a.example", 200), ("localhost", 200)):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n"
                      b"GET /v1/top HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
            assert s.recv(4096).startswith(b"HTTP/1.1 %d " % status), host


def test_an_image_across_sites_charges_nobody(server):
    one = server(policy=policy())
    image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image",
             "Referer": "http://evil.com/"}
    with one.http() as h:
        for door in ("/v1/auth/forward", "/v1/auth/nginx", "/v1/auth/envoy/a", "/v1/auth/commit"):
            for _ in range(3):
                status, _, body = h.ask("GET", door, headers={"Host": f"127.0.0.1:{one.http_port}", **image})
                assert status == 403 and "Sec-Fetch-Site" in body["detail"]
        for status in (200, 200, 429):
            assert h.ask("GET", "/v1/auth/forward", headers={**image, "X-Forwarded-Uri": "/"})[0] == status


@pytest.mark.parametrize("details", [False, True])
def test_what_the_denied_are_told(server, details):
    listen = "{address: '127.0.0.1:0', details: %s}" % str(details).lower()
    one = server(policy=policy(listen), listen=ON_POLICY)

    def ask(h, path):
        return h.ask("GET", path, headers={"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Uri": "/"})

    with one.http() as h:
        assert [ask(h, "/v1/auth/forward")[0] for _ in range(2)] == [200, 200]
        for path in ("/v1/auth/forward", "/v1/auth/nginx", "/v1/auth/envoy/"):
            _, headers, body = ask(h, path)
            assert body["violated-policies"] == ["per-ip"]
            assert ("everybody" in str(body), "192.0.2.7" in str(body), "trial" in str(body)) == (details,) * 3
            assert len(body) == 5 or details, body
            assert "per-ip" in dict(headers)["RateLimit"]
        # who asks for himself is told all
        body = h.post("/v1/admit", {"attributes": {"ip": "192.0.2.7"}})[2]
        assert [x["name"] for x in body["limits"]] == ["everybody", "per-ip", "trial"]
        # and a reload changes what strangers are told
        with open(one.policy_file, encoding="utf-8") as f:
            text = f.read()
        with open(one.policy_file, "w", encoding="utf-8") as f:
            f.write(text.replace(f"details: {str(details).lower()}", f"details: {str(not details).lower()}"))
        assert h.post("/v1/reload", {})[0] == 200
        wait_until(lambda: ("limits" in ask(h, "/v1/auth/forward")[2]) != details, "the reload's details are not known")
