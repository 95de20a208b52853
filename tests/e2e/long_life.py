"""What test_long_life.py asks a server all its life: a grammar of requests at every door, valid and invalid mixed, and
connections that send many at a time, in pieces of any size, and take each answer apart.

A request is (bytes, Want): Want says what its one answer has to be. Decisions are added up as the server's own metrics
add them up. Nothing here names the attribute `probe`, the domain `probe` or a key that begins with `probe:`: those are
for the probes, which find their counters as a new server has them.
"""

import json
import struct
import time
import urllib.parse

import rls
from harness import RespError, encode
from spop import HELLO, Spop, frame, pairs, string, varint

NONE = 4294967295
SPOP_FRAME_MAX = 16380

NOTATION = ["100/1m", "5/1h", "1/1s", "fixed-window 10/1s", "sliding-window 50/1m", "sliding-log 20/1m",
            "sliding-log 3/200ms", "sliding-log 400k/1m", "sliding-buckets 30/1m precision 5s",
            "sliding-buckets 9/1h precision 1m edge drop", "sliding-buckets 9/1h precision 1s edge weighted",
            "token-bucket 10/1s burst 50", "token-bucket 1/1h burst 1", "leaky-bucket 10/1s queue 20",
            "1000/1h spread", "fixed-window 7/10s spread 32768", "1M/month", "1000/day at Europe/Berlin",
            "100/hour at Asia/Kolkata", "4294967295/3660d"]
LEASED = ["concurrency 3 lease 200ms", "concurrency 40 lease 1s", "concurrency 1 lease 100ms", "concurrency 9 lease 2s"]
COUNTED = ["distinct 5/1m", "distinct 50/10s", "distinct 2000/1h", "distinct 3000/1d registers 1024 edge allow"]
NAMES = ["plain", "login", "files", "tokens", "at-a-time", "addresses", "knock", "watched", "tenfold", "priced",
         "spread", "month", "routes", "everybody"]
WRONG = ["", "100", "100/", "/1m", "0/1m", "100/60x", "policy:", "policy:nobody", "policy:x", "nonsense", "unlimited",
         "100/1m burst 5", "sliding-buckets 9/1h precision 7s", "concurrency 0 lease 1s", "5/1h\0", "\xff\xfe", "KEY",
         "policy:" + "n" * 65, "99999999999999999999/1m", "distinct 9/1s registers 3", "sliding-log 5/1m at Mars/X",
         "x" * 3000]

# $threads, $envoy and $quota change from one to the next; the limits of random requests never apply to a probe.
POLICY = """
listen:
  resp: 127.0.0.1:0
  http: [127.0.0.1:0, {address: 127.0.0.1:0, headers: [draft7, legacy-epoch], details: true}]
  grpc: 127.0.0.1:0
  spop: 127.0.0.1:0
$store
threads: $threads
client-time: true
trusted-proxies: [127.0.0.0/8]
retry-id: header idempotency-key
attributes: {user: header x-user-id, plan: header x-plan, probe: header x-probe, tenant: given}
envoy: {config: $envoy}
limits:
  - {name: probe, when: {probe: "*"}, key: probe, limit: sliding-log 7/3660d}
  - name: probe-path
    when: {probe: "*", path: "/probe/{a}/x", method: POST}
    key: [probe, a]
    limit: sliding-log 3/3660d
  - {name: probe-held, when: {probe: held*}, key: probe, limit: concurrency 2 lease 1d}
  - {name: probe-later, when: {probe: later*}, key: probe, limit: sliding-log 100/3660d, reserve: {ttl: 1d}}
  - {name: plain, when: {user: "*"}, key: user, limit: $quota/1m, candidate: 3/1m}
  - name: login
    when: {method: POST, path: [/login, /password/*]}
    key: ip
    limit: sliding-log 5/1s
    penalty: "[100ms, 400ms, 1s] after 3 denials in 1s forgive 2s"
    count-denied: true
    stagger: true
  - {name: files, when: {path: /files/*}, key: [user | ip, path], limit: token-bucket 10/1s burst $quota}
  - {name: tokens, when: {path: /chat*}, key: user | ip, limit: sliding-log 4k/1s,
     reserve: {ttl: 500ms, actual: header x-tokens-used, estimate: [header x-max-tokens, 50]}}
  - {name: at-a-time, when: {path: /chat*}, key: user | ip, limit: concurrency 5 lease 500ms}
  - {name: addresses, when: {user: "*"}, key: user, of: ip, limit: distinct 30/1s}
  - {name: knock, when: {host: "*.example"}, key: ip | "unknown", limit: 600/1m,
     penalty: {steps: [200ms, 1s], after: 5, in: 1s, forgive: 1s}}
  - {name: watched, when: {plan: free}, key: tenant, limit: 5/1s, observe: true, optional: true}
  - {name: tenfold, when: {path: /search*}, key: [user | ip, host], limit: leaky-bucket 100/1s queue 50, cost: 10}
  - name: priced
    when: {not: [{path: /health}, {probe: "*"}], plan: "*"}
    key: plan
    limit: sliding-buckets 900/10s precision 1s
    cost: [{when: {path: /export/*}, cost: 7}, header x-cost, 1]
    overrides:
      - {when: {plan: pro}, limit: sliding-buckets 5000/10s precision 1s}
      - {when: {plan: gone}, limit: unlimited}
      - {when: {plan: trial}, observe: true}
  - {name: spread, when: {tenant: "*"}, key: tenant, limit: fixed-window $quota/1s spread, canary: 50% of tenant}
  - {name: month, when: {tenant: "*"}, key: [tenant, user | ip], limit: 1M/month at Europe/Berlin}
  - {name: routes, when: {path: "/orgs/{org}/items/{item}"}, key: [org, ip], limit: 40/1s}
  - {name: everybody, when: {not: {probe: "*"}}, key: ip, limit: 2000/1s}
"""
RELOADS_REFUSED = ["limits: [", "limits:\n  - {name: a}\n", "nonsense: 1\nlimits: []\n", "",
                   "limits:\n  - {name: a, key: ip, limit: 5/1x}\n"]
ENVOY = """domain: shop
descriptors:
  - key: user
    rate_limit: {name: each, unit: second, requests_per_unit: 20}
  - key: user
    value: vip
    rate_limit: {unlimited: true}
  - key: path
    value: /api/*
    shadow_mode: true
    rate_limit: {unit: minute, requests_per_unit: 1}
  - key: tenant
    detailed_metric: true
    descriptors:
      - key: path
        rate_limit: {unit: hour, requests_per_unit: 300}
"""
ENVOY_PROBE = """domain: probe
descriptors:
  - key: who
    rate_limit: {unit: year, requests_per_unit: 5}
"""


class Want:
    """What one answer has to be: `check` takes it apart and returns how many decisions it tells of, 0 or 1."""
    __slots__ = ("check", "bare", "about")

    def __init__(self, check, about, bare=False):
        self.check, self.about, self.bare = check, about, bare


def is_refused(status, body):
    """As /json says it of descriptors that nobody can decide together: denied, with the reason, and no decision."""
    return status == 429 and b'"refused":' in body


# ---- words -----------------------------------------------------------------------------------------------------------

class Words:
    """Keys, limits, attributes and tickets, drawn by one dice."""

    def __init__(self, dice, keys=60):
        self.dice, self.tickets, self.keys = dice, [], keys
        self.stubborn = False  # keys are long and in other spellings, and much is wrong
        self.only, self.fails = None, False  # one kind of request; whatever is asked is wrong at its end

    def chance(self, share):
        return self.dice.random() < share

    def junk(self, most):
        return self.dice.randbytes(self.dice.choice([0, 1, 3, 8, 40, 300, 900, most, self.dice.randrange(most + 1)]))

    def address(self):
        last = self.dice.randrange(1, 6)
        return self.dice.choice(["192.0.2.%d", "192.0.2.%d:80", "::ffff:192.0.2.%d", "[::FFFF:192.0.2.%d]:9",
                                 "2001:db8::%d", "2001:DB8:0:0:%d::1", "[2001:db8::%d]:443", "no address %d"]) % last

    def path(self):
        path = self.dice.choice(["/login", "/password/x", "/files/a", "/files//b/./c", "/chat", "/chat/../chat/x?y=1",
                                 "/search?q=z", "/export/1", "/health", "/orgs/o%d/items/7" % self.dice.randrange(4),
                                 "/%6cogin#x", "http://h/files/a", "//", "", "*", "/%", "/%zz/\x7f"])
        return path + "/" + "p" * self.dice.choice([10, 200, 900]) if self.chance(0.03) else path

    def attributes(self):
        """A dict of text."""
        share = {"ip": 0.8, "path": 0.7, "method": 0.6, "user": 0.6, "host": 0.4, "plan": 0.4, "tenant": 0.4,
                 "x-y": 0.1}
        made = {"ip": self.address, "path": self.path,
                "method": lambda: self.dice.choice(["GET", "post", "POST", "PUT", "M" * 40]),
                "host": lambda: self.dice.choice(["a.example", "B.Example:443", "[2001:db8::1]", "h."]),
                "user": lambda: "u%d" % self.dice.randrange(12) + "x" * self.dice.choice([0, 0, 0, 0, 0, 900, 1500]),
                "plan": lambda: self.dice.choice(["free", "pro", "gone", "trial", "other"]),
                "tenant": lambda: "t%d" % self.dice.randrange(6),
                "x-y": lambda: self.junk(1500).decode("latin-1")}
        found = [(name, made[name]()) for name in share if self.chance(share[name])]
        self.dice.shuffle(found)
        return dict(found or [("ip", self.address())])

    def key(self):
        """Text, of which every character is a byte."""
        draw = self.dice.random()
        if self.stubborn and draw < 0.7:
            return self.dice.choice(["method=", "path=/", "host=", "ip=", "user=", "probe="]) + self.dice.choice(
                ["aB", "x", "/.", "::", "%", "é"]) * self.dice.choice([30, 400])
        if draw < 0.45:
            return "k%d" % self.dice.randrange(self.keys)
        if draw < 0.8:
            parts = self.attributes()
            return ",".join("%s=%s" % (n, urllib.parse.quote(v, safe="/:[]")) for n, v in parts.items())[:900]
        if draw < 0.9:
            return self.dice.choice(["method=", "path=/", "host=", "ip=", "user="]) + "%" * self.dice.choice([1, 900])
        return self.junk(3000).decode("latin-1")

    def limit(self, kinds=NOTATION, wrong=0.12):
        draw = self.dice.random()
        wrong = 0.3 if self.stubborn else wrong
        if draw > (0.3 if self.fails else 0.96):  # one that nobody has said before
            return "%d/%s" % (self.dice.randrange(1, 1 << 30), self.dice.choice(["1s", "7m", "2h"]))
        if draw < wrong:
            return self.dice.choice(WRONG)
        if draw < wrong + 0.35:
            return "policy:" + self.dice.choice(NAMES)
        return self.dice.choice(kinds if draw < 0.95 else NOTATION + LEASED + COUNTED)

    def cost(self):
        return self.dice.choice([0, 1, 1, 1, 1, 1, 2, 7, 100, NONE, NONE + 1, -1, "", "1.5", "x"] if self.chance(0.2)
                                else [1, 1, 1, 2, 5])

    def at(self):
        return self.dice.choice([1, 10**12, 10**12 + self.dice.randrange(5000), int(time.time() * 1000), -1, 2**63,
                                 "now"])

    def token(self):
        return self.dice.choice(["id%d" % self.dice.randrange(30), "x" * 64, "y" * self.dice.choice([0, 65, 900])])

    def member(self):
        return "m%d" % self.dice.randrange(200) if self.chance(0.9) else self.junk(1100).decode("latin-1")

    def ticket(self):
        if not self.tickets or self.chance(0.15):
            return self.dice.choice(["91c3f0d2a77e04b1", "91c3f0d2a77e04b1.AQMG", "", "zz", "0" * 16, "x" * 5000])
        ticket = self.dice.choice(self.tickets)
        if self.chance(0.1):
            at = self.dice.randrange(len(ticket))
            ticket = ticket[:at] + self.dice.choice("aZ0.-_~\0") + ticket[at + 1:]
        return ticket

    def keep(self, ticket):
        if len(self.tickets) < 60:
            self.tickets.append(ticket)
        else:
            self.tickets[self.dice.randrange(60)] = ticket

    def limits(self, kinds=NOTATION, wrong=0.12):
        count = self.dice.choice([1, 1, 1, 2, 3, 5, 16, 17, 40] if self.chance(0.15) else [1, 1, 2])
        return [self.limit(kinds, wrong / count) for _ in range(count)]


def as_bytes(words):
    return [w.encode("latin-1") if isinstance(w, str) else w for w in words]


# ---- RESP ------------------------------------------------------------------------------------------------------------

class Grammar(Words):
    """Requests: resp(), http(), spop(), rls(), each one request and what its answer has to be."""

    def limited(self, kinds, members=False):
        """Limits with keys and members of their own."""
        words = []
        for limit in self.limits(kinds):
            if words and self.chance(0.2):
                words += ["KEY", self.key()]
            if members and self.chance(0.5) or not members and self.chance(0.01):
                words += ["MEMBER", self.member()]
            words.append(limit)
        return words

    def options(self, *more):
        """Words before the limits."""
        found = ["AT", self.at()] if self.chance(0.05) else []
        if "ID" in more and self.chance(0.15):
            found += ["ID", self.token()]
        if "UPTO" in more and self.chance(0.15):
            found.append("UPTO")
        if self.chance(0.2):
            found.append(self.dice.choice(["NEXT", "EACH"]))
        return found + ([self.dice.choice(["OPEN", "EXACT", "NEXT", "ID", "NAME", "TTL"])] if self.chance(0.02) else [])

    def spoiled(self, words):
        """A word too many, too few, twice, or another."""
        words = list(words)
        at = self.dice.randrange(1, len(words) + 1)
        draw = self.dice.randrange(5)
        if draw == 0:
            del words[at:]
        elif draw == 1:
            words.insert(at, self.dice.choice(["KEY", "AT", "ID", "nonsense", "", "MEMBER", "UPTO", "policy:x", "1"]))
        elif draw == 2 and at < len(words):
            words[at] = self.dice.choice(["", "x", "-1", "k" * 1024, "policy:x", self.junk(2000)])
        elif draw == 3:
            words += words[1:at]
        else:
            words = words[:1] + words[2:]
        return words

    def decides(self):
        kind = self.dice.choice(["CHECK"] * 6 + ["PEEK", "REFUND", "ACQUIRE", "ACQUIRE", "RESERVE", "RESERVE"])
        kinds, members = NOTATION, False
        if kind == "ACQUIRE":
            kinds = LEASED + self.dice.sample(NOTATION, 1)
        elif kind != "RESERVE" and self.chance(0.25):
            kinds, members = COUNTED, True
        words = ["SLUICE." + kind, self.key(), self.cost()]
        words += [self.dice.choice([1, 50, 300, 60000, 0, "x"])] if kind == "RESERVE" else []
        more = {"CHECK": ("ID", "UPTO"), "PEEK": ("UPTO",), "REFUND": ()}.get(kind, ("ID",))
        return words + self.options(*more) + self.limited(kinds, members)

    def admits(self):
        words = [self.dice.choice(["SLUICE.ADMIT"] * 5 + ["SLUICE.EXPLAIN", "SLUICE.WHY"]), self.cost()]
        if words[0] == "SLUICE.ADMIT":
            words += self.options("ID", "UPTO")
            words += ["OPEN"] if self.chance(0.1) else []
            words += ["MEMBER", self.member()] if self.chance(0.1) else []
        for name, value in self.attributes().items():
            words += [name, value.encode()]
        return words

    def ends(self):
        kind = self.dice.choice(["RELEASE", "RENEW", "COMMIT", "COMMIT"])
        words = ["SLUICE." + kind, self.key() if self.chance(0.5) else "*", self.ticket()]
        if kind == "COMMIT":
            return words + [self.cost()] + (["EACH"] if self.chance(0.1) else [])
        return words + (self.limits(LEASED) if self.chance(0.3) else [])

    def looks(self):
        name = self.dice.choice(["RESET", "INSPECT", "HOLDERS", "TOP", "RULE", "OVERRIDE", "OVERRIDE"])
        if name == "RULE":
            return ["SLUICE.RULE", "shop"] + [w for _ in range(self.dice.choice([1, 1, 2, 17])) for w in
                                              (self.dice.choice(["user", "path", "tenant"]), self.key())]
        if name == "TOP":
            return ["SLUICE.TOP"] + self.dice.choice([[], ["NEAR"], ["DENIED", "COUNT", 3], ["COUNT", -1], ["x"]])
        if name != "OVERRIDE":
            return ["SLUICE." + name, self.key(), *self.limits(LEASED if name == "HOLDERS" else NOTATION + LEASED)]
        verb = self.dice.choice(["SET", "SET", "GET", "DEL", "DEL", "LIST", "HELP", "x"])
        if verb == "LIST":
            return ["SLUICE.OVERRIDE", verb, *self.dice.choice([[], [0], ["x"], [0, "COUNT", 5], [7, "COUNT", -1]])]
        words = ["SLUICE.OVERRIDE", verb, self.limit(), self.key()]
        if verb == "SET":
            words += [self.dice.choice([self.limit(), "50/1m", "unlimited"])]
            words += [self.dice.choice([100, 2000, 0, "x"])] if self.chance(0.7) else []
        return words

    def session(self):
        return self.dice.choice([
            ["PING"], ["PING", self.junk(2000)], ["ECHO", self.junk(5000)], ["TIME"], ["SELECT", 0], ["SELECT", 9],
            ["HELLO", 2], ["HELLO", 3], ["HELLO", 3, "SETNAME", self.token()], ["HELLO", 4], ["HELLO", 3, "AUTH", "a"],
            ["HELLO", 2, "AUTH", "default", "x"], ["AUTH", "x"], ["AUTH", "a", "b"], ["RESET"], ["INFO"],
            ["INFO", "clients"], ["CLIENT", "GETNAME"], ["CLIENT", "SETNAME", self.token()], ["CLIENT", "ID"],
            ["CLIENT", "INFO"], ["CLIENT", "LIST"], ["CLIENT", "SETINFO", "LIB-NAME", self.token()],
            ["CLIENT", "NO-EVICT", "on"], ["CLIENT", "x"], ["CLIENT"], ["COMMAND", "COUNT"],
            ["COMMAND", "INFO", "ping"],
            ["COMMAND", "DOCS", "sluice.check"], ["COMMAND", "GETKEYS", *self.decides()], ["CONFIG", "GET", "max*"],
            ["READONLY"], ["CLUSTER", "SLOTS"], ["MULTI"], ["EXEC"], ["EVAL", "return 1", 0], ["SUBSCRIBE", "x"],
            ["SLUICE.RELOAD"], ["GET", self.key()], ["nonsense", *self.decides()], ["x" * 300]])

    def throttles(self):
        return ["CL.THROTTLE", self.key(), self.dice.choice([0, 3, 15, -1]), self.dice.choice([1, 30, 0]),
                self.dice.choice([1, 60, 0, "x"]), *self.dice.choice([[], [1], [0], [3], [-1], ["x"]])]

    def command(self):
        if self.only:
            words = getattr(self, self.only)()
            return words + ["nonsense"] if self.fails else words
        draw = self.dice.random()
        words = (self.decides if draw < 0.5 else self.admits if draw < 0.68 else self.ends if draw < 0.78 else
                 self.looks if draw < 0.86 else self.throttles if draw < 0.92 else self.session)()
        return self.spoiled(words) if self.chance(0.3 if self.stubborn else 0.12) else words

    def resp(self):
        """One command, or some whose answers the client has switched off; in an array or in a line."""
        draw = 1 if self.only else self.dice.random()
        if draw < 0.004:
            quiet = [["PING"], ["SLUICE.PEEK", self.key(), 1, "5/1h"], ["SLUICE.EXPLAIN", 1, "ip", self.address()]]
            some = self.dice.choices(quiet, k=self.dice.randrange(1, 4))
            data = encode("CLIENT", "REPLY", "OFF") + b"".join(encode(*as_bytes(words)) for words in some)
            return data + encode("CLIENT", "REPLY", "ON"), Want(self.is_ok, some)
        if draw < 0.008:
            data = encode("CLIENT", "REPLY", "SKIP") + encode("SLUICE.PEEK", "k1", 1, "5/1h") + encode("PING")
            return data, Want(lambda reply: self.same(reply, b"PONG"), "SKIP")
        words = as_bytes(self.command())
        want = Want(lambda reply: self.take_reply(words, reply), words)
        raw = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        plain = all(w and all(32 < c < 127 and c not in b"\"'\\*$" for c in w) for w in raw)
        short = sum(map(len, raw)) < 9000
        return b" ".join(raw) + b"\r\n" if plain and short and self.chance(0.1) else encode(*words), want

    @staticmethod
    def same(reply, wanted):
        assert reply == wanted, reply
        return 0

    def is_ok(self, reply):
        return self.same(reply, b"OK")

    def take_reply(self, words, reply):
        name = bytes(words[0]).upper() if isinstance(words[0], bytes) else b""
        if isinstance(reply, RespError):
            text = str(reply)
            assert text.split(" ")[0] in ("ERR", "NOTFOUND", "NOPROTO", "WRONGPASS", "NOAUTH"), text
            assert "\n" not in text and text.split(" ", 1)[1], text
            return 0
        if name == b"CL.THROTTLE":
            assert len(reply) == 5 and reply[0] in (0, 1), reply
            return int(len(words) < 6 or int(words[5]) > 0)
        if name not in (b"SLUICE.CHECK", b"SLUICE.PEEK", b"SLUICE.REFUND", b"SLUICE.ADMIT", b"SLUICE.ACQUIRE",
                        b"SLUICE.RESERVE"):
            return 0
        assert isinstance(reply, list), reply
        if reply and isinstance(reply[0], list) or reply == []:
            return int(name not in (b"SLUICE.PEEK", b"SLUICE.REFUND"))
        assert 7 <= len(reply) <= 12 and reply[0] in (0, 1) and all(isinstance(n, int) for n in reply[:7]), reply
        assert reply[2] <= reply[1] and all(n >= 0 for n in (reply[1], reply[2], reply[4], reply[5])), reply
        ticket = reply[8 if name == b"SLUICE.ADMIT" else 7] if len(reply) > (8 if name == b"SLUICE.ADMIT" else 7) else 0
        if isinstance(ticket, bytes):
            self.keep(ticket.decode("latin-1"))
        return int(name not in (b"SLUICE.PEEK", b"SLUICE.REFUND"))

    # ---- HTTP --------------------------------------------------------------------------------------------------------

    def element(self, kinds):
        limit = self.limit(kinds)
        if self.chance(0.2):
            return {"key": self.key(), "limit": limit, **({"member": self.member()} if self.chance(0.3) else {})}
        return limit

    def asked(self):
        """A route that decides or ends, and its body."""
        route = self.dice.choice(["check"] * 5 + ["admit"] * 4 + ["acquire", "reserve", "reserve", "refund", "release",
                                                                   "renew", "commit", "holders", "inspect", "reset"])
        kinds = LEASED if route in ("acquire", "release", "renew", "holders") else self.dice.choice(
            [NOTATION, NOTATION, NOTATION + COUNTED])
        body = {"key": self.key(), "limits": [self.element(kinds) for _ in range(self.dice.choice([1, 1, 2, 3, 17]))]}
        if route == "admit":
            body = {"attributes": self.attributes()}
        elif route in ("commit", "release", "renew") and self.chance(0.7):
            body = {"id": self.ticket()}
        if route in ("check", "admit", "refund", "acquire", "reserve") and self.chance(0.6):
            body["cost"] = self.cost()
        if route in ("release", "renew") and "key" in body:
            body["id"] = self.ticket()
        more = {"check": ["peek", "upto", "next", "id", "member", "at"], "acquire": ["id", "next"],
                "admit": ["peek", "upto", "next", "id", "member"], "reserve": ["next", "id"]}
        more = more.get(route, ["nobody"] if self.chance(0.02) else [])
        for word in more:
            if self.chance(0.12 if word != "member" else 0.5):
                body[word] = {"id": self.token, "member": self.member, "at": self.at}.get(word, lambda: True)()
        if route == "reserve":
            body["ttl_ms"] = self.dice.choice([1, 50, 300, 60000, 0, "x"])
        if route == "commit":
            body["actual"] = self.cost()
        decides = route in ("check", "admit", "acquire", "reserve") and not body.get("peek")
        return "/v1/" + route, body, decides

    def body(self, path, body):
        """A body as it is sent: mostly JSON, or spoiled."""
        data = json.dumps(body, ensure_ascii=self.chance(0.5)).encode("utf-8", "surrogatepass")
        draw = self.dice.random()
        if draw < 0.04:
            data = data[:self.dice.randrange(len(data) + 1)]
        elif draw < 0.06:
            at = self.dice.randrange(len(data))
            data = data[:at] + self.dice.choice([b"\0", b"\xff", b'"', b"{", b"9" * 30]) + data[at:]
        elif draw < 0.061:
            data = data + b" " * 65536
        if self.chance(0.25):
            parts, at = [], 0
            while at < len(data):
                size = self.dice.choice([1, 7, 60, 400, 70000])
                parts.append(b"%x%s\r\n%s\r\n" % (len(data[at:at + size]), self.dice.choice([b"", b";x=y"]),
                                                  data[at:at + size]))
                at += size
            end = b"0\r\n" + self.dice.choice([b"", b"", b"X-Trailer: y\r\n"]) + b"\r\n"
            return b"Transfer-Encoding: chunked\r\n", b"".join(parts) + end
        return b"Content-Length: %d\r\n" % len(data), data

    def proxied(self):
        """A question of a proxy: (method, target, headers)."""
        given = {n: v.translate(str.maketrans("", "", "\r\n\0\x7f")) for n, v in self.attributes().items()}
        door = self.dice.choice(["forward", "nginx", "envoy"])
        prefix = "X-Original-" if door == "nginx" else "X-Forwarded-"
        headers = []
        for name, header in (("method", prefix + "Method"), ("path", prefix + "URI"), ("host", "X-Forwarded-Host"),
                             ("ip", "X-Forwarded-For"), ("user", "X-User-Id"), ("plan", "X-Plan")):
            if name in given:
                headers.append((header, given[name]))
        for header, values in (("X-Cost", ["3", "0", "x"]), ("X-Max-Tokens", ["9", "x"]),
                               ("Idempotency-Key", [self.token()]), ("X-User-Id", ["twice"])):
            if self.chance(0.05):
                headers.append((header, self.dice.choice(values)))
        path = given.get("path", "/") if door == "envoy" else ""
        path = path.replace("#", "" if self.chance(0.95) else "#")  # which ends the connection
        target = "/v1/auth/" + door + (path if path.startswith("/") and path.isprintable() else "")
        return self.dice.choice(["GET", "POST", "PURGE"]), target, headers

    def seen(self):
        """What is looked at by GET, and what changes quotas of keys' own."""
        query = urllib.parse.urlencode(self.attributes())
        item = "/v1/overrides/%s/%s" % (urllib.parse.quote(self.limit(), safe=":"),
                                        urllib.parse.quote(self.key()[:60].encode("utf-8", "replace"), safe=""))
        return self.dice.choice([
            ("GET", "/v1/explain?" + query, None), ("GET", "/v1/inspect?" + query, None), ("GET", item, None),
            ("GET", "/v1/limits?count=" + self.dice.choice(["3", "0", "x"]), None), ("GET", "/v1/top", None),
            ("GET", "/v1/overrides?count=9", None), ("DELETE", item, None), ("DELETE", item, None),
            ("PUT", item, {"limit": self.dice.choice(["50/1m", "unlimited", self.limit()]), "ttl_ms": 1500}),
            ("GET", "/healthz", None), ("GET", "/readyz", None), ("GET", "/rlconfig", None), ("HEAD", "/healthz", None),
            ("GET", "/v1/figures", None), ("GET", "/", None), ("GET", "/dashboard/page.css", None),
            ("GET", "/v1/openapi.json", None), ("OPTIONS", "/v1/check", None), ("GET", "/nowhere", None),
            ("PATCH", "/v1/check", {}), ("GET", "/" + "p" * 3000, None), ("HEAD", "/v1/limits", None),
            ("POST", "/v1/reload", None), ("GET", "/v1/auth/commit", None), ("GET", "/metrics", None)])

    def descriptors(self):
        """Of Envoy's rate limit service: domain, descriptors, hits, and whether it can decide anything."""
        lists = []
        for _ in range(self.dice.choice([0, 1, 1, 1, 2, 5, 17])):
            names = self.dice.choices(["user", "path", "tenant", "remote_address", "", "k"],
                                      k=self.dice.choice([0, 1, 1, 2, 3, 17]))
            values = {"user": "vip" if self.chance(0.2) else "u%d" % self.dice.randrange(9), "path": self.path(),
                      "tenant": "t%d" % self.dice.randrange(9), "remote_address": self.address(), "": "x",
                      "k": self.key()}
            lists.append([(name, values[name].replace("\0", "")) for name in names])
        return self.dice.choice(["shop", "shop", "rl", "", "d" * 300]), lists, self.dice.choice([0, 0, 1, 5, NONE])

    def http(self):
        draw = self.dice.random()
        headers, body, decides, method = [], None, False, "POST"
        if self.only:
            draw = self.dice.choice([0.5, 0.7, 0.8, 0.9]) if self.only == "session" else 0.5
        if draw < 0.55:
            target, body, decides = self.asked()
            if self.fails:
                body.update(nonsense=1)
        elif draw < 0.75:
            method, target, headers = self.proxied()
            decides = None
            if self.chance(0.1):
                target, method = "/v1/auth/commit", "POST"
                headers = [("X-Sluice-Ticket", self.ticket().replace("\0", "")), ("X-Tokens-Used", str(self.cost()))]
        elif draw < 0.88:
            method, target, body = self.seen()
        else:
            domain, lists, hits = self.descriptors()
            target, decides = "/json", None
            body = {"domain": domain, "hitsAddend": hits,
                    "descriptors": [{"entries": [{"key": k, "value": v} for k, v in one]} for one in lists]}
        head = "%s %s HTTP/1.1\r\nHost: localhost\r\n" % (method, target)
        head += "".join("%s: %s\r\n" % pair for pair in headers)
        more, data = b"", b""
        if body is not None:
            more, data = self.body(target, body)
            if self.chance(0.03):
                more += b"Expect: 100-continue\r\n"
        want = Want(lambda *answer: self.take_answer(decides, target, *answer), (method, target, body),
                    bare=method == "HEAD")
        return head.encode("latin-1", "replace") + more + b"\r\n" + data, want

    def take_answer(self, decides, target, status, headers, body):
        assert status in (200, 204, 400, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431, 501), (status, body[:300])
        kind = headers.get(b"content-type", b"")
        said = json.loads(body) if b"json" in kind and body else None
        if status >= 400 and body and target != "/json":
            assert b"application/problem+json" in kind, (kind, body[:300])
            assert said["status"] == status and said["title"] and said["detail"], said
        if decides and status in (200, 429):
            assert said["allowed"] is (status == 200) and said["remaining"] <= said["quota"], said
            if isinstance(said.get("id"), str):
                self.keep(said["id"])
            return 1
        if target.startswith("/v1/auth/") and target != "/v1/auth/commit":
            if b"sluice-ticket" in headers:
                self.keep(headers[b"sluice-ticket"].decode("latin-1"))
            return int(status == 200 or b"violated-policies" in body)
        if target == "/json":
            return int(status in (200, 429) and not is_refused(status, body))
        return 0

    # ---- SPOP and gRPC -----------------------------------------------------------------------------------------------

    def spop(self, number):
        """One NOTIFY, numbered, as its ACK will be. A ticket that another door gave may be too long for its frame."""
        name, items = "admit", [(n, v.encode()) for n, v in self.attributes().items()]
        if self.chance(0.15):
            name, items = "commit", [("ticket", self.ticket()), ("actual", self.cost())]
        for word, made in (("cost", self.cost), ("id", self.token), ("user", lambda: None), ("n" * 70, lambda: True)):
            if self.chance(0.05):
                items.append((word, made()))
        name = self.dice.choice(["other", "", "x" * 300]) if self.chance(0.01) else name
        message = Spop.message(name, items, number)
        if len(message) > 4 + SPOP_FRAME_MAX:
            return self.spop(number)
        return message, Want(self.take_ack, (name, items))

    def take_ack(self, said):
        if isinstance(said.get("ticket"), str):
            self.keep(said["ticket"])
        if "denied" in said:
            assert isinstance(said["denied"], bool) and said.get("remaining", 0) <= said.get("quota", 0), said
            return 1
        return 0


# ---- HTTP/2 and the greeting of SPOP, byte by byte ------------------------------------------------------------------

SPOP_HELLO = frame(HELLO, pairs([("supported-versions", "2.0"), ("capabilities", "pipelining,async")]) +
                   string("max-frame-size") + b"\x03" + varint(SPOP_FRAME_MAX))


def h2_frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def h2_call(grammar, resets=True):
    """A function of a stream's number to a call as frames, its head without compression; cut into frames, or reset, by
    chance."""
    domain, lists, hits = grammar.descriptors()
    body = rls.framed(rls.request(domain, *[[(k, v.encode("utf-8", "replace").decode()) for k, v in one]
                                            for one in lists], hits=hits).SerializeToString())
    path = grammar.dice.choice([rls.PATH] * 8 + ["/grpc.health.v1.Health/Check", "/nowhere"])
    pairs = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
             ("content-type", "application/grpc"), ("te", "trailers")]
    if grammar.chance(0.1):
        pairs.append(("grpc-timeout", grammar.dice.choice(["1n", "1S", "x"])))
    head = b"".join(b"\0" + bytes([len(n)]) + n.encode() + bytes([len(v)]) + v.encode() for n, v in pairs)
    cut = grammar.dice.randrange(len(head)) if grammar.chance(0.2) else len(head)
    pieces = []
    while len(body) > 16000 or body and grammar.chance(0.2):
        size = grammar.dice.randrange(1, min(len(body), 16000) + 1)
        pieces, body = [*pieces, body[:size]], body[size:]
    reset = resets and grammar.chance(0.1)

    def frames(stream):
        made = h2_frame(1, 4 if cut == len(head) else 0, stream, head[:cut])
        made += h2_frame(9, 4, stream, head[cut:]) if cut < len(head) else b""
        made += b"".join(h2_frame(0, 0, stream, piece) for piece in pieces)
        return made + (h2_frame(3, 0, stream, struct.pack(">I", 8)) if reset else h2_frame(0, 1, stream, body))
    return frames
