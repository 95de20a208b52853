"""RateLimit-Policy tells a quota of the key's own, set at run time, as it would tell it of the policy."""

import pytest

LIMITS = """
limits:
  - {name: tb, key: u, limit: token-bucket 10/1s burst 50, when: {w: tb},
     overrides: [{when: {u: file}, limit: token-bucket 1/1s burst 3}]}
  - {name: lb, key: u, limit: leaky-bucket 10/1s queue 50, when: {w: lb},
     overrides: [{when: {u: file}, limit: leaky-bucket 1/1s queue 3}]}
  - {name: sw, key: u, limit: 5/1m, when: {w: sw},
     overrides: [{when: {u: file}, limit: 7/1m}]}
"""
OWN = {"tb": "token-bucket 1/1s burst 3", "lb": "leaky-bucket 1/1s queue 3", "sw": "7/1m"}
TOLD = {"tb": "3;w=3", "lb": "4;w=4", "sw": "7;w=60"}


def ask(http, path, body):
    status, headers, said = http.ask("POST", path, body)[:3]
    return status, {k.lower(): v for k, v in dict(headers).items()}, said


def admit(http, user, name, **more):
    return ask(http, "/v1/admit", {"attributes": {"u": user, "w": name}, **more})


@pytest.mark.parametrize("forms", ["draft10", "draft7", "[draft6, legacy-delta]"])
def test_the_own_quota_of_a_key_is_told_as_one_of_the_file(server, forms):
    one = server(f"headers: {forms}\n" + LIMITS)
    with one.resp() as r:
        for name, own in OWN.items():
            assert r.call("SLUICE.OVERRIDE", "SET", f"policy:{name}", "u=own", own) == b"OK"
            http = one.http()
            for user in ("file", "own"):
                status, headers, said = admit(http, user, name)
                quota, window = TOLD[name].split(";")
                expected = f'"{name}";q={quota};{window}' if forms == "draft10" else TOLD[name]
                assert (status, headers["ratelimit-policy"]) == (200, expected), (name, user)
                assert own.split()[-1] in said["limits"][0]["limit"], (name, user)
                status, _, said = admit(http, user, name, cost=40)
                assert status == 429 and own.split()[-1] in said["detail"], (name, user)


@pytest.mark.parametrize("forms", ["draft10", "draft7", "[draft6, legacy-delta]"])
def test_of_a_key_that_is_unlimited_nothing_is_told(server, forms):
    one = server(f"headers: {forms}\n" + LIMITS)
    with one.resp() as r:
        http = one.http()
        for name in OWN:
            assert "ratelimit-policy" in admit(http, "own", name)[1]
            assert r.call("SLUICE.OVERRIDE", "SET", f"policy:{name}", "u=own", "unlimited") == b"OK"
            status, headers, said = admit(http, "own", name)
            assert (status, said["limit"], said["quota"], said["remaining"]) == (200, "", 4294967295, 4294967295)
            assert not [header for header in headers if "ratelimit" in header]
        assert r.call("SLUICE.OVERRIDE", "SET", "5/1m", "k", "unlimited") == b"OK"
        status, headers, said = ask(http, "/v1/check", {"key": "k", "limits": ["5/1m"]})
        assert status == 200 and "ratelimit-policy" not in headers and "ratelimit" not in headers
        status, headers, said = ask(http, "/v1/check", {"key": "k", "limits": ["5/1m", "9/1h"]})
        if forms == "draft10":
            assert headers["ratelimit-policy"] == '"sliding-window 9/1h";q=9;w=3600'
        else:
            assert headers["ratelimit-policy"] == "9;w=3600"
