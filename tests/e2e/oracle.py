"""envoyproxy/ratelimit, the real one, with a Redis of its own; and random configurations and requests to ask it and
Sluice. An answer is compared as `told()` has it: what both say that does not depend on the second it is said in."""
import http.client
import json
import os
import socket
import subprocess
import tempfile
import time

import yaml
from google.protobuf import json_format

import foreign
import rls
from harness import DEADLINE_S, ROOT, wait_until
from ports import free_port

UNITS = {"minute": rls.MINUTE, "hour": rls.HOUR, "day": rls.DAY, "week": rls.WEEK, "month": rls.MONTH,
         "year": rls.YEAR}
OVERRIDE_UNITS = ("minute", "hour", "day", "month", "year")  # the enumeration of requests has no week
UNLIMITED = 4294967295
CORPUS = os.path.join(ROOT, "tests", "envoy")


class Ratelimit:
    """One ratelimit with the files {name: text}, on loopback. Its Redis is the caller's, and is emptied."""

    def __init__(self, redis_port, files, **settings):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-oracle-")
        self.config = os.path.join(self.folder.name, "ratelimit", "config")
        os.makedirs(self.config)
        for name, text in files.items():
            with open(os.path.join(self.config, name), "w", encoding="utf-8") as file:
                file.write(text)
        with socket.create_connection(("127.0.0.1", redis_port), DEADLINE_S) as redis:
            redis.sendall(b"FLUSHALL\r\n")
            assert redis.recv(16) == b"+OK\r\n"
        self.ports = {name: free_port() for name in ("GRPC_PORT", "PORT", "DEBUG_PORT")}
        self.port = self.ports["GRPC_PORT"]
        environment = {"PATH": os.environ["PATH"], "RUNTIME_ROOT": self.folder.name, "RUNTIME_WATCH_ROOT": "false",
                       "RUNTIME_SUBDIRECTORY": "ratelimit", "REDIS_SOCKET_TYPE": "tcp", "USE_STATSD": "false",
                       "REDIS_URL": f"127.0.0.1:{redis_port}", "HOST": "127.0.0.1", "GRPC_HOST": "127.0.0.1",
                       "DEBUG_HOST": "127.0.0.1", "LOG_LEVEL": "error", **settings,
                       **{name: str(port) for name, port in self.ports.items()}}
        with open(os.path.join(self.folder.name, "log"), "wb") as log:
            self.process = subprocess.Popen([foreign.built("ratelimit")], env=environment, stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log)
        wait_until(self._listens, "ratelimit did not listen")

    def _listens(self):
        assert self.process.poll() is None, self.log()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def log(self):
        with open(os.path.join(self.folder.name, "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


# ---- configurations --------------------------------------------------------------------------------------------------

KEYS = ("user", "path", "plan", "remote_address", "generic_key")
VALUES = ("ann", "bob", "/a", "/a/b", "/search", "10.0.0.1", "10.0.0.2", "über", "x y", "gold")
PATTERNS = ("/a*", "*", "/*", "10.0.0.*", "b*", "go*")


def random_rule(dice, names):
    """Without quota_mode, which later versions of theirs decide otherwise, as we do."""
    rule = {"key": dice.choice(KEYS)}
    if dice.random() < .7:
        rule["value"] = dice.choice(VALUES if dice.random() < .65 else PATTERNS)
    star = rule.get("value", "").endswith("*")
    if dice.random() < .75:
        limit = rule["rate_limit"] = {}
        if dice.random() < .08:
            limit["unlimited"] = True
        else:
            limit["unit"] = dice.choice(list(UNITS))
            limit["requests_per_unit"] = dice.choice((0, 1, 2, 3, 5, 8, 20, 100, 4294967295))
        if dice.random() < .3:
            limit["name"] = dice.choice(names)
        others = [name for name in names if name != limit.get("name")]
        if dice.random() < .12:
            limit["replaces"] = [{"name": name} for name in dice.sample(others, dice.randint(1, 2))]
    for flag, chance in (("shadow_mode", .1), ("detailed_metric", .1), ("value_to_metric", .1)):
        if dice.random() < chance:
            rule[flag] = True
    if star and dice.random() < .4:
        rule["share_threshold"] = True
    return rule


def random_rules(dice, names, depth):
    rules, taken = [], set()
    for _ in range(dice.randint(1, 5 if depth == 3 else 3)):
        rule = random_rule(dice, names)
        joined = rule["key"] + ("_" + rule["value"] if "value" in rule else "")
        if joined in taken:
            continue
        taken.add(joined)
        if depth > 1 and dice.random() < .45:
            rule["descriptors"] = random_rules(dice, names, depth - 1)
        rules.append(rule)
    return rules


def random_domain(dice, name):
    return {"domain": name, "descriptors": random_rules(dice, ["n1", "n2", "n3"], 3)}


def files_of(domains):
    return {f"{one['domain']}.yaml": yaml.safe_dump(one, allow_unicode=True, sort_keys=False) for one in domains}


def write_corpus(folder):
    """The recorded files, good and bad, each one's characters being its bytes."""
    for one in recorded("config.jsonl"):
        with open(os.path.join(folder, one["file"]), "wb") as file:
            file.write(one["bytes"].encode("latin-1"))


def verdict(path):
    """What the real loader says of a file: {"error"} or {"dump"}."""
    said = subprocess.run([foreign.built("verdict")], input=path, capture_output=True, check=True, text=True,
                          timeout=DEADLINE_S).stdout
    return {name: value for name, value in json.loads(said).items() if name != "file"}


def recorded(name):
    with open(os.path.join(CORPUS, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# ---- requests --------------------------------------------------------------------------------------------------------

def random_value(dice, rule):
    value = rule.get("value")
    if value is None or dice.random() < .1:
        return dice.choice(VALUES)
    if value.endswith("*"):
        return value[:-1] + dice.choice(("", "b", "1", "/c"))
    return value


def random_entries(dice, domain):
    entries, rules = [], domain["descriptors"]
    while rules:
        rule = dice.choice(rules)
        entries.append((rule["key"] if dice.random() < .97 else dice.choice(KEYS), random_value(dice, rule)))
        if dice.random() < .3:
            break
        rules = rule.get("descriptors")
    if dice.random() < .06:
        entries.append((dice.choice(KEYS), dice.choice(VALUES)))
    return entries


def shares(rules):
    return any(rule.get("share_threshold") or shares(rule.get("descriptors", [])) for rule in rules)


def random_override(dice, name):
    """A descriptor that brings its limit along, alone and of cost 1: one that is denied is counted by theirs only."""
    unit, most = dice.choice(OVERRIDE_UNITS), dice.choice((0, 1, 4, 50))
    return [name, [[[("asked", f"{most} a {unit}")], {"limit": [most, UNITS[unit]]}]], 0]


def random_request(dice, domains):
    """[domain, [[entries, more]...], hits], as rls.request() takes it. No two descriptors of it meet in a counter, for
    there the two differ (docs/envoy.md)."""
    domain = dice.choice(domains)
    if dice.random() < .05:
        return random_override(dice, domain["domain"])
    peek, met, asked = dice.random() < .04, set(), []
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 5))):
        entries, more = random_entries(dice, domain), {}
        same = tuple(key for key, _ in entries) if shares(domain["descriptors"]) else tuple(entries)
        if same in met:
            continue
        met.add(same)
        if peek:
            more["hits"] = 0
        elif dice.random() < .15:
            more["hits"] = dice.randint(1, 4)
        asked.append([entries, more])
    name = domain["domain"] if dice.random() < .97 else "nobody"
    return [name, asked, 0 if dice.random() < .8 else dice.randint(1, 3)]


def message(asked):
    domain, descriptors, hits = asked
    return rls.request(domain, *[([tuple(entry) for entry in entries], more) for entries, more in descriptors],
                       hits=hits)


# ---- answers ---------------------------------------------------------------------------------------------------------

def told(response):
    """[overall, [[code, remaining, (requests, unit, name)]...]]"""
    statuses = []
    for status in response.statuses:
        limit = status.current_limit
        statuses.append([status.code, status.limit_remaining] + ([limit.requests_per_unit, limit.unit, limit.name]
                                                                 if status.HasField("current_limit") else []))
    return [response.overall_code, statuses]


def minute():
    """Two answers are of the same windows if this is the same before and after: all units begin with a minute."""
    return int(time.time()) // 60


def in_one_minute(run):
    """What `run` returns, once no window has ended while it ran."""
    for _ in range(5):
        begun, said = minute(), run()
        if minute() == begun:
            return said
        time.sleep(1)
    raise AssertionError("it takes more than a minute")


def replay(address, requests):
    """The answers to all, one after the other."""
    with rls.Client(address) as client:
        return [told(client.send(message(asked))) for asked in requests]


def as_ours(asked, theirs, ours):
    """Their answer with what is other in ours (docs/envoy.md): a limit that a descriptor brings along is named by what
    it says; and one that looks (hits 0) is over its limit as soon as not one more fits, where theirs is so when it was
    exceeded."""
    overall, statuses = theirs[0], [list(status) for status in theirs[1]]
    for (_, more), status, own in zip(asked[1], statuses, ours[1]):
        if "limit" in more and len(status) > 2:
            status[4] = own[4]
        if more.get("hits") == 0 and status[:2] == [rls.OK, 0] and len(status) > 2 and own[0] == rls.OVER_LIMIT:
            status[0] = overall = rls.OVER_LIMIT
    return [overall, statuses]


def well_within_a_minute():
    """Waits while a window is about to end, so that both answer in the same one."""
    left = 60 - time.time() % 60
    if left < .7:
        time.sleep(left + .1)


def compare(address, ours, requests):
    """Asks both the same, at the same time; the first answers that differ: (asked, theirs as ours would be, ours)."""
    with rls.Client(address) as their_client, rls.Client(ours) as our_client:
        for asked in requests:
            well_within_a_minute()
            begun, made = minute(), message(asked)
            their_call, our_call = their_client.send_later(made), our_client.send_later(made)
            theirs, own = their_call.result(), our_call.result()
            if minute() != begun:
                return None  # the machine stood still, and what is counted where can't be known
            wanted = as_ours(asked, told(theirs), told(own))
            waits = [(a.duration_until_reset.seconds, b.duration_until_reset.seconds) for a, b, (_, more)
                     in zip(theirs.statuses, own.statuses, asked[1]) if "limit" not in more]
            if wanted != told(own) or any(abs(a - b) > 1 for a, b in waits):
                return asked, wanted, told(own), waits
    return None


# ---- JSON over HTTP --------------------------------------------------------------------------------------------------

class Json:
    """Asks POST /json of a port of loopback."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def post(self, body):
        """(status, headers, the answer's bytes)"""
        self.connection.request("POST", "/json", body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, response.headers, response.read()

    def send(self, made):
        """(status, what it says as JSON) of a request as rls.request() makes them."""
        status, headers, body = self.post(json_format.MessageToJson(made))
        assert headers["Content-Type"] == "application/json", body
        return status, json.loads(body)


CODES, JSON_UNITS = {"OK": rls.OK, "OVER_LIMIT": rls.OVER_LIMIT}, {name.upper(): unit for name, unit in UNITS.items()}


def told_json(answer):
    """As told(), of an answer in JSON."""
    statuses = []
    for status in answer.get("statuses", []):
        limit = status.get("currentLimit")
        unit = (limit or {}).get("unit", 0)
        statuses.append([CODES[status["code"]], status.get("limitRemaining", 0)] +
                        ([limit.get("requestsPerUnit", 0), JSON_UNITS.get(unit, unit), limit.get("name", "")]
                         if limit is not None else []))
    return [CODES[answer["overallCode"]], statuses]


def compare_json(port, our_port, requests):
    """As compare(), by JSON; one after the other."""
    with Json(port) as real, Json(our_port) as own:
        for asked in requests:
            well_within_a_minute()
            begun, made = minute(), message(asked)
            (their_status, theirs), (our_status, ours) = real.send(made), own.send(made)
            if minute() != begun:
                return None
            wanted = as_ours(asked, told_json(theirs), told_json(ours))
            if wanted != told_json(ours) or our_status != (200 if wanted[0] == rls.OK else 429) or \
                    their_status != (200 if told_json(theirs)[0] == rls.OK else 429):
                return asked, theirs, ours
    return None
