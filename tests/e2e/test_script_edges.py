"""The script where its numbers or its lists end: sums of 2^32, several limits in one call, long texts, many leases, and
leases and members that have ended."""
import struct

import pytest
import redis

from test_script import FORMS, NOW, Guest, Script, client_of, forms, host, scripts_folder  # noqa: F401 - fixtures

TURN = 2**32


# ---- running costs are kept modulo 2^32 ------------------------------------------------------------------------------

@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit,cost", [("sliding-log 4G/10s", 20_000_000),
                                        ("sliding-buckets 4G/10s precision 50ms edge count", 19_900_000)])
def test_what_left_the_window_is_not_found_by_its_cost(forms, form, limit, cost):  # noqa: F811
    """A full window of entries 50 ms apart; with what stands before it in the oldest chunk it is 2^32 and more."""
    script, key, quota = forms[form], f"turns {form} {limit}", 4_000_000_000
    used = quota // cost * cost
    for n in range(330):
        at = NOW + 50 * n
        assert script.ask("CHECK", [key], cost, "AT", at, limit)[0] == 1
        if n in (215, 220, 290, 327, 329):
            assert script.ask("CHECK", [key], cost, "AT", at, limit) == [0, quota, quota - used, 50, 10000 + (
                50 if "buckets" in limit else 0), 0, 0]
            assert script.ask("PEEK", [key], 4 * cost, "AT", at, "EACH", limit)[0][3] == 200
            script.client.copy(key, "copy", replace=True)
            assert script.ask("REFUND", ["copy"], 3_500_000_000, "AT", at, limit)[2] == quota - used + 3_500_000_000
            assert script.ask("REFUND", ["copy"], used, "AT", at, limit)[2:5] == [quota, 0, 0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("words", [[], ["NEXT"]], ids=["straight", "whole"])
@pytest.mark.parametrize("edge", ["drop", "weighted"])
def test_a_sub_bucket_at_the_edge_beside_a_full_window(forms, form, words, edge):  # noqa: F811
    """Together they hold more than 2^32, which no sum may be taken of."""
    script, key, most = forms[form], f"edge {edge} {form} {words}", 3_000_000_000
    limit = f"sliding-buckets {most}/1m precision 15s edge {edge}"
    start = NOW - NOW % 60000
    assert script.ask("CHECK", [key], most, "AT", start, limit)[:3] == [1, most, 0]
    # Ten seconds into its last sub-bucket a third of what is at the edge weighs.
    weighs = most // 3 if edge == "weighted" else 0
    at = start + 60000 + 10000
    assert script.ask("CHECK", [key], most - weighs, "AT", at, *words, limit)[:3] == [1, most, 0]
    assert script.ask("CHECK", [key], 1, "AT", at, *words, limit)[:3] == [0, most, 0]
    assert script.ask("PEEK", [key], TURN - most, "AT", at, *words, limit)[:3] == [0, most, 0]


# ---- several limits of one call --------------------------------------------------------------------------------------

@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("buckets", ["sliding-buckets 5/1h precision 2m", "sliding-buckets 5/1h precision 2m edge drop",
                                     "sliding-buckets 5/1h precision 2m edge weighted"])
def test_a_limit_takes_nothing_from_the_one_before_it(forms, form, buckets):  # noqa: F811
    script, at = forms[form], NOW - NOW % 3600000
    for each in ([], ["EACH"]):
        key = f"beside {form} {buckets} {each}"
        reply = script.ask("CHECK", [key], 1, "AT", at, *each, buckets, "sliding-log 5/1h")
        again = script.ask("PEEK", [key], 5, "AT", at, *each, buckets, "sliding-log 5/1h", "sliding-log 2/1m")
        if each:
            assert reply[1] == [1, 5, 4, 0, 3600000, 0, 3600000]
            assert again[1] == [0, 5, 4, 3600000, 3600000, 0, 3600000] and again[2] == [0, 2, 2, -1, 0, 0, 0]
        else:
            assert reply[:4] == [1, 5, 4, 0] and 3600000 <= reply[4] <= 3720000
            assert again[:4] == [0, 2, 2, -1] and again[4] == reply[4]


# ---- what the library keeps ------------------------------------------------------------------------------------------

def test_long_texts_of_limits_are_not_kept(scripts_folder):  # noqa: F811
    """What was read stays with the library, outside maxmemory: 1,000 texts of 60 KB would be 60 MB."""
    with Guest() as one:
        script = Script(client_of(one), scripts_folder, "function")
        for n in range(1000):
            assert script.ask("PEEK", ["k"], 1, "AT", NOW, "0" * 60000 + f"{n + 1}/1h")[:2] == [1, n + 1]
        assert script.client.info("memory")["used_memory_vm_functions"] < 10_000_000


# ---- leases and members ----------------------------------------------------------------------------------------------

LEASES = "concurrency 3 lease 1s"


@pytest.mark.parametrize("form", FORMS)
def test_as_many_leases_as_a_script_keeps(forms, form):  # noqa: F811
    """In the longest list that there is, with some that have ended, or stand in the order of versions before."""
    script, key, limit = forms[form], f"many {form}", "concurrency 1024 lease 1h"
    hour, ends = 3600_000, []
    for n in range(1024):
        assert script.ask("ACQUIRE", [key], 1, "AT", NOW + n, "ID", f"{n:016x}", limit)[:3] == [1, 1024, 1023 - n]
        ends.append(NOW + n + hour)
    at = NOW + 1023
    assert script.ask("ACQUIRE", [key], 1, "AT", at, limit)[:4] == [0, 1024, 0, ends[0] - at]
    assert script.ask("ACQUIRE", [key], 1000, "AT", at, "NEXT", limit) == [
        0, 1024, 0, ends[999] - at, hour, 0, 0, None, ends[0] - at]
    assert script.ask("RENEW", [key], f"{0:016x}", "AT", at, limit) == 1
    assert script.ask("RELEASE", [key], f"{5:016x}", "AT", at, limit) == 1
    assert script.ask("RELEASE", [key], f"{5:016x}", "AT", at, limit) == 0
    assert script.ask("PEEK", [key], 2, "AT", at, limit) == [0, 1024, 1, ends[1] - at, hour, 0, 0]
    assert script.ask("PEEK", [key], 2, "AT", ends[99], limit)[:3] == [1, 1024, 1 + 98]
    kept = script.client.hget(key, f"N{hour}")
    leases = [kept[i:i + 28] for i in range(8, len(kept), 28)]
    assert len(leases) == 1023 and leases == sorted(leases, key=lambda x: struct.unpack("<d", x[:8]))
    script.client.hset(key, f"N{hour}", kept[:8] + b"".join(leases[::-1]))
    assert script.ask("PEEK", [key], 2, "AT", at, limit) == [0, 1024, 1, ends[1] - at, hour, 0, 0]
    assert script.ask("RELEASE", [key], f"{7:016x}", "AT", at, limit) == 1
    assert script.ask("PEEK", [key], 3, "AT", at, limit) == [0, 1024, 2, ends[1] - at, hour, 0, 0]
    for damaged in (float("nan"), -1.0, 0.5, float("inf"), 2.0**53):
        script.client.hset(key, f"N{hour}", kept[:8] + struct.pack("<d", damaged) + kept[16:36])
        with pytest.raises(redis.ResponseError, match="was changed"):
            script.ask("PEEK", [key], 1, "AT", at, limit)


@pytest.mark.parametrize("form", FORMS)
def test_a_lease_that_is_held_is_answered_for_a_cost_of_none(forms, form):  # noqa: F811
    script, key = forms[form], f"none {form}"
    assert script.ask("ACQUIRE", [key], 0, "AT", NOW, "ID", "x", LEASES) == [1, 3, 3, 0, 0, 0, 0, None]
    assert script.ask("ACQUIRE", [key], 2, "AT", NOW, "ID", "x", LEASES)[7] == b"x"
    assert script.ask("ACQUIRE", [key], 0, "AT", NOW, "ID", "x", LEASES) == [1, 3, 1, 0, 1000, 0, 0, b"x"]
    assert script.ask("ACQUIRE", [key], 0, "AT", NOW, "EACH", "ID", "x", LEASES)[1] == [0, 1, 0]
    assert script.ask("ACQUIRE", [key], 0, "AT", NOW, "EACH", "ID", "y", LEASES)[1] == [0, 0, 0]
    assert script.ask("ACQUIRE", [key], 0, "AT", NOW + 1000, "EACH", "ID", "x", LEASES)[1] == [0, 0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_a_retry_beside_a_candidate_is_charged_once(forms, form):  # noqa: F811
    """A candidate holds no lease, so whether all are held is for the others to say."""
    script, key = forms[form], f"tried {form}"
    for again in (0, 1):
        reply = script.ask("ACQUIRE", [key], 1, "AT", NOW, "EACH", "ID", "x", LEASES, "5/1h", "TRIED", "NAME", "new",
                           "concurrency 2 lease 1s")
        assert [row[2] for row in reply[:3]] == [2, 4, 2] and reply[3] == [1, again, 0]
    with pytest.raises(redis.ResponseError, match="no limit of concurrency among the limits"):
        script.ask("ACQUIRE", [key], 1, "AT", NOW, "TRIED", LEASES)


@pytest.mark.parametrize("form", FORMS)
def test_a_retry_of_one_of_two_leases_leaves_the_clock_of_the_other(forms, form):  # noqa: F811
    script, key = forms[form], f"half {form}"
    assert script.ask("ACQUIRE", [key], 1, "AT", NOW, "ID", "x", LEASES)[0] == 1
    both = [LEASES, "NAME", "b", LEASES]
    assert script.ask("ACQUIRE", [key], 1, "AT", NOW + 500, "EACH", "ID", "x", *both)[2] == [1, 0, 0]
    assert script.ask("PEEK", [key], 3, "AT", NOW + 100, LEASES) == [0, 3, 2, 900, 900, 0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_what_has_ended_goes_with_a_charge_only(forms, form):  # noqa: F811
    """An instant earlier than its last charge is raised to that, not to a release or a refund."""
    script, key, members = forms[form], f"ended {form}", "distinct 3/1s"
    for at, name in ((NOW, "a"), (NOW + 900, "b")):
        assert script.ask("ACQUIRE", [key], 1, "AT", at, "ID", name, LEASES)[0] == 1
        assert script.ask("CHECK", [key], 1, "AT", at, "MEMBER", name, members)[0] == 1
    assert script.ask("RELEASE", [key], "b", "AT", NOW + 1100, LEASES) == 1
    assert script.ask("PEEK", [key], 3, "AT", NOW + 950, LEASES) == [0, 3, 2, 50, 50, 0, 0]
    assert script.ask("REFUND", [key], 1, "AT", NOW + 1100, "MEMBER", "b", members)[2] == 3
    assert script.ask("PEEK", [key], 1, "AT", NOW + 950, "NEXT", members) == [1, 3, 2, 0, 50, 0, 0, 50]
    assert script.ask("ACQUIRE", [key], 1, "AT", NOW + 1100, "ID", "c", LEASES)[2] == 2
    assert script.ask("CHECK", [key], 1, "AT", NOW + 1100, "MEMBER", "c", members)[2] == 2
    assert [len(value) for value in script.client.hgetall(key).values()] == [8 + 28, 8 + 16]
