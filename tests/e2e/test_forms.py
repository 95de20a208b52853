"""One client, one counter: `ip path method host` mean the same at every door (contract 5), whatever is sent.

First what was seen, by name. Then random attributes, spelled in all the ways that mean one thing and made of 0 to 4,096
bytes of anything, at SLUICE.ADMIT, /v1/admit and the proxies' door, of a server and of a front over Redis, each answer
beside a model that has forms of its own (tests/cases/forms.py): no limit that applies is ever left out.

The seed is printed; SLUICE_SEED=N runs that one again. SLUICE_SOAK_SECONDS goes on for so long.
"""

import json
import os
import random
import re
import sys
import time

import pytest

from harness import ROOT, Resp, RespError, encode
from redis_world import SOAK

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import forms  # noqa: E402

SEED = int(os.environ.get("SLUICE_SEED", random.randrange(1, 1 << 32)))
NONE = 4294967295


# ---- what was seen ---------------------------------------------------------------------------------------------------

SEEN = """
limits:
  - {name: exact, key: ip, limit: sliding-log 10/1m}
  - {name: short, when: {path: /shorten, method: post, host: "Example.com:443"}, key: [], limit: sliding-log 3/1m}
  - {name: at-once, when: {path: /held}, key: ip, limit: concurrency 2 lease 1m}
"""


def test_addresses_of_a_network_share_a_counter_at_every_door(server):
    one = server(SEEN)
    with one.resp() as resp, one.http() as http:
        allowed = sum(resp.call("SLUICE.ADMIT", 1, "ip", "2001:db8:0:7::%x" % i)[0] for i in range(4))
        allowed += sum(http.post("/v1/admit", {"attributes": {"ip": "[2001:DB8:0:7::%x]:80" % i}})[0] == 200
                       for i in range(13))
        allowed += sum(http.ask("GET", "/v1/auth/forward", None, {"X-Forwarded-For": "2001:db8:0:7:%x::" % i})[0] == 200
                       for i in range(13))
        assert allowed == 10
        explained = resp.call("SLUICE.EXPLAIN", 1, "ip", "2001:db8:0:7::ffff")
        assert explained[0][2:6] == [b"ip=2001:db8:0:7::/64", 0, 10, 0]
        got = http.ask("GET", "/v1/explain?ip=2001:db8:0:7:1:2:3:4")[2]
        assert (got["remaining"], got["limits"][0]["key"]) == (0, "ip=2001:db8:0:7::/64")
        for value in ("1.2.3.4", "::ffff:1.2.3.4", "1.2.3.4:567", "[::ffff:102:304]:80"):
            last = resp.call("SLUICE.ADMIT", 2, "ip", value)
        assert last[:3] == [1, 10, 2]


@pytest.mark.parametrize("path", ["/shorten", "//shorten", "/shorten?x=1", "/a/../%73horten#x", "http://a/shorten"])
def test_no_spelling_of_a_path_escapes(server, path):
    one = server(SEEN)
    with one.resp() as resp, one.http() as http:
        words = ["method", "PosT", "path", path, "host", "example.COM:8443"]
        assert resp.call("SLUICE.ADMIT", 1, *words)[7] == b"short"
        assert http.post("/v1/admit", {"attributes": dict(zip(words[::2], words[1::2]))})[2]["limit"] == "short"
        headers = {"X-Forwarded-Method": "post", "X-Forwarded-Uri": path, "X-Forwarded-Host": "EXAMPLE.com"}
        assert http.ask("GET", "/v1/auth/forward", None, headers)[0] == 200
        assert http.ask("GET", "/v1/auth/forward", None, headers)[0] == 429
        assert resp.call("SLUICE.ADMIT", 1, *words)[0] == 0


def test_an_attribute_given_twice_is_refused_at_every_door(server):
    one = server(SEEN)
    with one.resp() as resp, one.http() as http:
        for names in (("ip", "ip"), ("ip", "x", "x"), ("x", "y", "z", "x")):
            pairs = [word for i, name in enumerate(names) for word in (name, "v%d" % i)]
            for command in ("SLUICE.ADMIT", "SLUICE.EXPLAIN"):
                with pytest.raises(RespError, match="given twice"):
                    resp.call(command, 1, *pairs)
            query = "&".join("%s=v%d" % (name, i) for i, name in enumerate(names))
            assert http.ask("GET", "/v1/explain?" + query)[0] == 400
            body = "{\"attributes\":{%s}}" % ",".join('"%s":"v"' % name for name in names)
            assert http.post("/v1/admit", body)[0] == 400


def test_a_key_of_the_policy_is_found_however_it_is_written(server):
    """What people and dashboards ask by key, where the limit is the policy's: the key has its form too."""
    one = server(SEEN)
    with one.resp() as resp, one.http() as http:
        ticket = resp.call("SLUICE.ADMIT", 1, "path", "/held", "ip", "2001:db8::1")[8]
        assert ticket is not None
        for key in ("ip=2001:db8::/64", "ip=2001:DB8::99", "ip=[2001:db8::5]:443"):
            assert http.post("/v1/holders", {"key": key, "limits": ["policy:at-once"]})[2]["count"] == 1, key
            assert len(resp.call("SLUICE.HOLDERS", key, "policy:at-once")) == 1, key
            assert resp.call("SLUICE.PEEK", key, 1, "policy:exact", "KEY", key, "policy:exact")[2] == 9, key
            peek = http.post("/v1/check", {"key": key, "limits": ["policy:exact"], "peek": True})[2]
            assert peek["remaining"] == 9, key
        assert http.post("/v1/reset", {"key": "ip=2001:db8::abc", "limits": ["policy:exact"]})[2] == {"reset": 1}
        resp.call("SLUICE.ADMIT", 1, "ip", "::ffff:9.9.9.9")
        assert resp.call("SLUICE.RESET", "ip=9.9.9.9:80", "policy:exact") == 1
        # a limit in notation counts for the key as it stands
        assert http.post("/v1/check", {"key": "ip=2001:db8::1", "limits": ["10/1m"]})[2]["remaining"] == 9
        assert http.post("/v1/check", {"key": "ip=2001:db8::2", "limits": ["10/1m"]})[2]["remaining"] == 9


# ---- random attributes -----------------------------------------------------------------------------------------------

LIMITS = [  # name, conditions, parts of the key, quota
    ("everybody", {}, [("ip",)], 60),
    ("login", {"method": [b"POST"], "path": [b"/login"]}, [("ip",)], 7),
    ("either", {}, [("user", "ip")], 40),
    ("files", {"path": [b"/files/*"]}, [("user", "ip"), ("path",)], 9),
    ("dav", {"method": [b"PROP*"]}, [("host",)], 30),
    ("api", {"host": [b"api.example", b"[2001:db8::1]"]}, [("user", "ip")], 20),
    ("pro", {"plan": [b"pro*"]}, [("plan",), ("ip",)], 15),
]


def yaml_of(limits, more=""):
    text = "threads: 1\nattributes: {user: header x-user-id, plan: header x-plan}\nlimits:\n"
    for name, when, parts, quota in limits:
        conditions = {a: [v.decode() for v in values] for a, values in when.items()}
        key = json.dumps([" | ".join(part) for part in parts])
        text += "  - {name: %s, when: %s, key: %s, limit: fixed-window %d/3660d%s}\n" % (
            name, json.dumps(conditions), key, quota, more)
    return text


class Model:
    def __init__(self):
        self.spent = {}

    def items(self, attributes):
        """(position, name, key, quota) of the limits that apply."""
        values = {name: forms.form(name, value) for name, value in attributes.items()}
        for position, (name, when, parts, quota) in enumerate(LIMITS):
            if not all(a in values and any(values[a].startswith(w[:-1]) if w.endswith(b"*") else values[a] == w
                                           for w in wanted) for a, wanted in when.items()):
                continue
            found = [next((n for n in part if n in values), None) for part in parts]
            if None not in found:
                pairs = [n.encode() + b"=" + forms.encoded(forms.folded(values[n])) for n in found]
                yield position, name, forms.folded(b",".join(pairs)), quota

    def admit(self, attributes):
        """What is answered: allowed, quota, remaining, position, name; and the names and keys that apply."""
        items = list(self.items(attributes))
        left = [quota - self.spent.get((name, key), 0) for _, name, key, quota in items]
        allowed = all(room >= 1 for room in left)
        if allowed:
            for _, name, key, _ in items:
                self.spent[name, key] = self.spent.get((name, key), 0) + 1
            left = [room - 1 for room in left]
        if not items:
            return (1, NONE, NONE, -1, ""), items
        which = left.index(min(left)) if allowed else next(i for i, room in enumerate(left) if room < 1)
        position, name, _, quota = items[which]
        return (int(allowed), quota, min(left), position, name), items


class Maker:
    """Attributes of requests: a few clients in many spellings, and bytes of anything. Clients change with `epoch`."""

    def __init__(self, dice):
        self.dice, self.epoch = dice, 0

    def junk(self, alphabet=None):
        size = self.dice.choice([0, 1, 3, 8, 8, 40, 40, 1023, 1024, 1025, self.dice.randrange(4097)])
        text = self.dice.randbytes(size)
        return text if alphabet is None else text.translate(alphabet)

    def address(self):
        which = self.dice.randrange(8)
        if which < 4:
            quad = "10.%d.%d.%d" % (self.epoch >> 8 & 255, self.epoch & 255, which)
            return self.dice.choice([quad, quad, quad + ":80", "::ffff:" + quad, "[::FFFF:%s]:9" % quad])
        end = "%x:%x" % (self.dice.randrange(1, 1 << 16), self.dice.randrange(1, 1 << 16))
        text = "2001:db8:%x:%x::%s" % (self.epoch, which, end)
        return self.dice.choice([text, text.upper(), "[%s]" % text, "[%s]:443" % text, text + "%eth0"])

    def path(self):
        text = self.dice.choice(["/login", "/files/a", "/files/b/", "/", "/search", "/Login"])
        for _ in range(self.dice.randrange(3)):
            at = self.dice.choice([m.start() for m in re.finditer("/", text)])
            extra = self.dice.choice(["/", "/.", "/x/..", "/%2e", "/y/z/../.%2E"])
            text = text[:at] + extra + text[at:]
        letters = [m.start() for m in re.finditer("[A-Za-z]", text)]
        if letters and self.dice.random() < 0.3:
            at = self.dice.choice(letters)
            if "%" not in text[max(0, at - 2):at]:
                text = text[:at] + "%%%02x" % ord(text[at]) + text[at + 1:]
        text = self.dice.choice(["", "", "", "http://h", "HTTPS://u@h:1"]) + text
        return text + self.dice.choice(["", "", "", "?x=1", "?", "#a", "?/../login"])

    def detour(self):
        steps = self.dice.choice([100, 300, 700])
        there = b"/" + b"a" * self.dice.randrange(900) + b"/b" * steps
        return there + b"/.." * (steps + 1) + self.path().encode()[-40:]

    def case(self, text):
        return "".join(self.dice.choice([c.upper(), c.lower()]) for c in text)

    def one(self, name, alphabet):
        draw = self.dice.random()
        if draw < 0.12:
            return self.junk(alphabet)
        if name == "ip":
            return self.address().encode()
        if name == "path":
            return self.detour() if draw < 0.13 else self.path().encode()
        if name == "method":
            return self.case(self.dice.choice(["POST", "POST", "GET", "PROPFIND"])).encode()
        if name == "host":
            host = self.dice.choice(["api.example", "b%d.example" % self.epoch, "[2001:db8::1]"])
            return (self.case(host) + self.dice.choice(["", "", ":443", ":"])).encode()
        if name == "user":
            user = b"u%d-%d" % (self.epoch, self.dice.randrange(3))
            return user + (b"x" * 2000 if draw < 0.2 else b"")
        return self.dice.choice([b"pro", b"free", b"pro-%d" % self.dice.randrange(3)])

    def attributes(self, alphabet=None):
        share = {"ip": 0.93, "path": 0.8, "method": 0.8, "host": 0.6, "user": 0.5, "plan": 0.3}
        found = [(n, self.one(n, alphabet)) for n in share if self.dice.random() < share[n]]
        self.dice.shuffle(found)
        return dict(found or [("plan", self.one("plan", alphabet))])


class Pipe:
    """HTTP/1.1, pipelined: whole requests out, answers in their order back."""

    def __init__(self, port):
        self.raw = Resp(port)

    def answers(self, requests):
        self.raw.send(b"".join(requests))
        for _ in requests:
            status, length = int(self.raw.line().split()[1]), 0
            while (line := self.raw.line()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            yield status, self.raw.exactly(length)


def over_resp(resp, model, batch):
    resp.send(b"".join(encode("SLUICE.ADMIT", 1, *[w for pair in one.items() for w in pair]) for one in batch))
    for one in batch:
        reply, (want, _) = resp.read(), model.admit(one)
        assert not isinstance(reply, RespError), (reply, one)
        assert (reply[0], reply[1], reply[2], reply[6], reply[7].decode()) == want, one


def over_admit(pipe, model, batch):
    bodies = [json.dumps({"attributes": {n: v.decode() for n, v in one.items()}}).encode() for one in batch]
    head = b"POST /v1/admit HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
    requests = [head % (len(body), body) for body in bodies]
    for one, (status, body) in zip(batch, pipe.answers(requests)):
        want, items = model.admit(one)
        assert status == (200 if want[0] else 429), (status, body[:300], one)
        got = json.loads(body)
        assert (got["quota"], got["remaining"], got["limit"]) == (want[1], want[2], want[4]), one
        keys = [(name, None if len(key) >= 1022 else key.decode()) for _, name, key, _ in items]
        told = [(x["name"], None if len(x["key"].encode()) >= 1022 else x["key"]) for x in got["limits"]]
        assert told == keys, one


PROXY = [("method", b"X-Forwarded-Method"), ("path", b"X-Forwarded-Uri"), ("host", b"X-Forwarded-Host"),
         ("ip", b"X-Forwarded-For"), ("user", b"X-User-Id"), ("plan", b"X-Plan")]


def seen_by_proxy(sent):
    """What the proxies' door makes of these headers: docs/proxies.md."""
    hosts = [e.strip(b" \t") for e in sent.get("host", b"").split(b",")]
    found = {"method": sent.get("method") or b"GET", "path": sent.get("path", b"") or b"/",
             "host": next((h for h in reversed(hosts) if h), b"localhost"), "ip": b"127.0.0.1"}
    for hop in reversed([e.strip(b" \t") for e in sent.get("ip", b"").split(b",")]):
        if hop == b"":
            continue
        if forms.address_of(hop) is not None:
            found["ip"] = hop
        break
    return {**found, **{n: sent[n] for n in ("user", "plan") if n in sent}}


def over_proxy(pipe, model, batch):
    sent = [{n: v.strip(b" \t") for n, v in one.items()} for one in batch]
    requests = [b"GET /v1/auth/forward HTTP/1.1\r\nHost: localhost\r\n" +
                b"".join(header + b": " + one[n] + b"\r\n" for n, header in PROXY if n in one) + b"\r\n"
                for one in sent]
    for one, request, (status, body) in zip(sent, requests, pipe.answers(requests)):
        if len(request) > 16 * 1024 - 64:
            continue
        want, _ = model.admit(seen_by_proxy(one))
        assert status == (200 if want[0] else 429), (status, body[:300], one, want)


def table_of(alphabet):
    return bytes(alphabet[i % len(alphabet)] for i in range(256))


TEXT = table_of(b"abcXYZ09-._~/%?#:;,=@[] {}\"\\")
FIELD = table_of(bytes(range(0x20, 0x7f)) + bytes(range(0x80, 0x100)))


def one_round(place, dice, count, size):
    """`count` requests at the three doors of a server, beside a model of its counters."""
    model, maker, asked = Model(), Maker(dice), 0
    pipes = []
    with place.resp() as resp:
        pipes = [Pipe(place.http_port), Pipe(place.http_port)]
        while asked < count:
            maker.epoch += 1
            for door in range(3):
                batch = [maker.attributes([None, TEXT, FIELD][door]) for _ in range(size)]
                if door == 2:  # a head has 16 KiB
                    batch = [one for one in batch if sum(map(len, one.values())) < 12 * 1024]
                [over_resp, over_admit, over_proxy][door]([resp, *pipes][door], model, batch)
                asked += len(batch)
    for pipe in pipes:
        pipe.raw.close()
    return asked


@pytest.mark.parametrize("kind", ["server", "front"])
def test_random_attributes_meet_their_limits(server, redises, kind):  # noqa: F811
    print(f"SLUICE_SEED={SEED}")
    dice, asked, end = random.Random(f"{SEED} {kind}"), 0, time.monotonic() + SOAK / 2
    while asked == 0 or time.monotonic() < end:
        policy = yaml_of(LIMITS)
        if kind == "front":  # strict: a denial that is remembered names whom it knows of
            policy = yaml_of(LIMITS, ", strict: true")
            redis = redises(module=("client-time", "yes"))
            policy += 'store: {redis: "127.0.0.1:%d", via: module, budget: 5s, slices: false}\n' % redis.port
        place = server(policy)
        count, size = (6000, 20) if kind == "server" else (2400, 1)
        asked += one_round(place, dice, 40000 if SOAK else count, size)
        place.stop()
        if kind == "front":
            redis.end()
    print(f"{kind}: {asked} requests, each answered as the model")
