"""What small worlds find: in copies of files of src/algo, in what decides, charges and gives back, every comparison is
turned, one at a time, and every ceil is made a floor, and the worlds of that file have to see the difference. Those
that they can't see are named in UNSEEN, with why; whatever else they let pass fails here, and so does a name that no
longer stands for anything.

    tests/run --soak 600 --only turned                              all of them, two hours of processor
    SLUICE_TURNED=window.c pytest -s tests/model/turned_test.py     those of one file; each is printed

  <  becomes <=, <= becomes <, >  becomes >=, >= becomes >, == becomes !=, != becomes ==, sl_div_ceil becomes sl_div,
  and, of rings and lists, + 1 is gone

What is asserted is left alone: an assertion that is turned fails at once, and says nothing of the worlds. A mistake is
found when the program fails, crashes or does not end; it need not compile under other warnings than errors."""
import concurrent.futures
import os
import re
import resource
import shlex
import subprocess
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The quick worlds, in a soak too: what takes longer than these has not ended.
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "SLUICE_SOAK"))}
PROCESSOR_SECONDS_MAX = 60  # the whole of an algorithm's worlds takes some seconds
# The programs, and which of their worlds: each is a run.
WORLDS = {"window.c": {"worlds_test": ("fixed-window", "sliding-window")},
          "bucket.c": {"worlds_test": ("token-bucket", "leaky-bucket")},
          "lease.c": {"worlds_seats_test": ("",)},
          "seats.c": {"worlds_seats_test": ("",)},
          "log.c": {"worlds_test": ("sliding-log",), "worlds_ledger_test": ("sliding-log",)},
          "subs.c": {"worlds_ledger_test": ("sliding-buckets",), "worlds_test": ("sliding-buckets",)},
          "ledger.c": {"worlds_ledger_test": ("",)},
          "terms.c": {"worlds_penalties_test": ("",)}}
LISTS = ("log.c", "subs.c", "ledger.c")
# What decides, charges and gives back; the other functions of these files are held by other models.
DECIDING = {
    "window.c": ("into_window", "window_at", "write_state", "sl_fixed_step", "window_retry", "window_used",
                 "sl_window_step", "sl_window_refund", "sl_window_instant"),
    "bucket.c": ("stored_debt", "stored_tick", "store", "bucket_at", "bucket_retry", "bucket_delay", "sl_bucket_step",
                 "sl_bucket_refund", "sl_bucket_instant"),
    "lease.c": ("sl_lease_step", "sl_lease_block_bytes", "sl_lease_write", "sl_lease_is_held", "sl_lease_release",
                "sl_lease_renew", "sl_lease_list", "sl_lease_order"),
    "seats.c": ("sl_seats_look", "first_end_after", "cut_at", "pick", "sl_seats_wait", "sl_seats_find_spare",
                "sl_seats_instant", "sl_seats_find"),
    "log.c": ("slot_of", "instant_at", "count_expired", "look", "wait_for", "wait_until_left", "charge_ms", "log_reset",
              "sl_log_step", "merges", "count_distinct", "plan", "sl_log_block_bytes", "move_entries", "write_moved",
              "sl_log_write", "sl_log_prepare", "sl_log_prepare_refund", "sl_log_refund", "too_old", "sl_log_trim",
              "sl_log_instant", "find_entry", "is_first", "sl_log_held", "sl_log_first", "sl_log_between", "look_back",
              "sl_log_correct_bytes", "cost_at", "insert", "correct_entry", "sum_up", "sl_log_correct"),
    "subs.c": ("ring_of", "ring_of_limit", "narrow_bytes", "sl_subs_wide_bytes", "is_narrow", "get", "put",
               "to_sub_bucket", "to_slot", "slot_aged", "cell", "sum_of_newest", "what_stays", "look", "edge_cost",
               "skip_empty", "subs_retry", "reach_of", "sl_subs_instant", "subs_reset", "sl_subs_step", "set_total",
               "set_unknown", "own_cell", "sl_subs_block_bytes", "sl_subs_most_bytes", "sl_subs_move",
               "sl_subs_prepare", "sl_subs_write", "refund_end", "sl_subs_prepare_refund", "sl_subs_refund",
               "sl_subs_count", "correct_cell", "sl_subs_correct"),
    "ledger.c": ("sl_ledger_ended", "sl_ledger_debt", "sl_reservation_of", "sl_correct_bytes", "sl_correct", "flush",
                 "add_returns", "returned", "decide", "wait_for", "step_by_copies", "ms_at", "next_share",
                 "find_shares", "sharing_behind", "log_used", "first_end", "log_wait", "step_log", "sl_ledger_step"),
    "terms.c": ("end_of", "forgiven_at", "counting", "sl_strikes_stand", "sl_strikes_judge", "sl_strikes_add",
                "sl_strikes_life"),
}
TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "sl_div_ceil": "sl_div",
          "+ 1": ""}
TOKEN = re.compile(r"/\*.*?\*/|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|->|<<=?|>>=?|<=|>=|==|!=|<|>|\+ 1\b|"
                   r"\bsl_div_ceil\b", re.S)
HEAD = re.compile(r"^[a-z](?:[^\n(]*?\b)??(\w+)\((?!\()[^;{]*?\)\s*\{$", re.M)
SPARED = re.compile(r"^\s*(SL_ASSERT|SL_DEBUG_ASSERT|#)")

# (file, function, line of it as it stands, which of that line's): why no world can tell
SAME = "the same at the edge: a difference of 0 is 0 either way, and of two equals either is the less"
TICK = "of a tick of 1 ns nothing has ever passed; no world has windows of 4.3 s and more, whose ticks are longer"
PACE = "decides how soon the search for a wait ends, not where"
FULL = "a block has eight seats at least, and no world has as many who hold one"
DAMAGED = "only of a damaged block, and no world has one"
WHOLE = "at a whole millisecond, as the worlds ask, it is the same instant"
OLD = "of what is exactly a window old, which counts no more at a whole millisecond"
SIZE = "says how large a block is taken, and when: in any that is large enough it decides the same"
ROUNDED = "blocks are of whole 64 bytes: an entry less that is asked for is there all the same"
HELD = "what is reserved is in its entry for as long as it counts: the worlds refund nothing beside it"
HINT = "a guess, from which the same entry is found, sooner or later"
DEATH = "is for who comes after a death, as in tests/crash; nobody dies in a world"
FURTHER = "what stands after the corrections is read as one more: mostly it corrects nothing, and sanitizers see it"
ROOM = "says when others may have the room of strikes, and in a world nobody else asks for any"
EVEN = "blocks are of whole 64 bytes, and no world has cells that fill one to the end"
BUNDLED = "only of bundles, for which there have to be more than 64 reservations"
MANY = "only of thousands of reservations, more than have room in the scratch memory"
LARGE = "no world counts as many as 2^32, less a ring"
EIGHT = "decides whether cells are looked at one by one or eight together: the same ones"
UNSEEN = {
    ("lease.c", "sl_lease_step", "uint64_t room = limit->quota > p->held ? limit->quota - p->held : 0;", 1): SAME,
    ("lease.c", "sl_lease_list", "for (uint32_t i = 0; i < p->capacity && used < room; i++)", 1): FULL,
    ("lease.c", "sl_lease_list", "for (uint32_t i = 0; i < p->capacity && used < room; i++)", 2):
        "who asks has room for all who hold",
    ("lease.c", "sl_lease_order", "return a->ends_after_ns < b->ends_after_ns ? -1 : 1;", 1): SAME,
    ("lease.c", "sl_lease_order", "return a->id < b->id ? -1 : a->id > b->id;", 1): SAME,
    ("lease.c", "sl_lease_order", "return a->id < b->id ? -1 : a->id > b->id;", 2): SAME,
    ("seats.c", "cut_at", "for (uint32_t i = 0; i < p->capacity; i++) {", 1): FULL,
    ("seats.c", "cut_at", "cut.count += p->ends[i] > low;", 1): PACE,
    ("seats.c", "pick", "for (uint32_t i = 0; i < p->capacity; i++) {", 1): FULL,
    ("seats.c", "pick", "if (p->ends[i] <= low || p->ends[i] >= high)", 1): PACE,
    ("seats.c", "pick", "if (p->ends[i] <= low || p->ends[i] >= high)", 2): PACE,
    ("seats.c", "pick", "if (nth-- == 0)", 1): PACE,
    ("seats.c", "first_end_after", "for (uint32_t i = 0; i < p->capacity; i++)", 1): FULL,
    ("seats.c", "first_end_after", "first = p->ends[i] > instant && p->ends[i] < first ? p->ends[i] : first;", 1): PACE,
    ("seats.c", "first_end_after", "first = p->ends[i] > instant && p->ends[i] < first ? p->ends[i] : first;", 2): SAME,
    ("seats.c", "sl_seats_wait", "if (cut_at(p, low, first).cost >= need)", 1): PACE,
    ("seats.c", "sl_seats_wait", "for (int round = 0; round < ROUNDS_MAX; round++) {", 1): PACE,
    ("seats.c", "sl_seats_wait", "if (round % 2 == 1)", 1): PACE,
    ("seats.c", "sl_seats_find_spare", "while (i < p->capacity && p->ends[i] > p->t)", 2):
        "a seat that ends at this instant is left, and another one is taken",
    ("seats.c", "sl_seats_find_spare", "p->spare = i < p->capacity ? i : SL_NO_PLACE;", 1): FULL,
    ("window.c", "sl_fixed_step", "uint64_t quota = limit->quota, room = quota > w.cur ? quota - w.cur : 0;", 1): SAME,
    ("window.c", "sl_window_step", "room = quota > used ? quota - used : 0;", 1): SAME,
    ("bucket.c", "bucket_at", "b.debt = debt > b.drained ? debt - b.drained : 0;", 1): SAME,
    ("bucket.c", "sl_bucket_step", "room = capacity > used ? capacity - used : 0;", 1): SAME,
    ("bucket.c", "bucket_at", "b.passed = tick >= last ? now - tick * tick_ns : 0;", 1):
        TICK,
    ("bucket.c", "sl_bucket_refund", "take = take < b.debt ? take : b.debt;", 1): SAME,
    ("bucket.c", "sl_bucket_instant", "return to_ticks(now, tick_ns) >= last ? now : last * tick_ns;", 1): TICK,
    ("bucket.c", "sl_bucket_step", "b.rate = decision->allowed && cost != 0 ? limit->quota : b.rate;", 1):
        "the worlds have one rate a counter; two are for rates_test.c",
    ("log.c", "instant_at", "if (log->width == 4)", 1):
        "no world has windows of 65 s and more, whose entries are wider",
    ("log.c", "count_expired", "high = 2 * high + 1;", 1): PACE,
    ("log.c", "count_expired", "high = high < log->count ? high : log->count;", 1): SAME,
    ("log.c", "look", "if (log->head >= log->capacity || log->count >= log->capacity) { "
                      "/* damaged: there are no entries */", 1): DAMAGED,
    ("log.c", "look", "if (log->head >= log->capacity || log->count >= log->capacity) { "
                      "/* damaged: there are no entries */", 2): DAMAGED,
    ("log.c", "look", "log->weighted = log->capacity != 0 ? log->weighted : 0;", 1): DAMAGED,
    ("log.c", "look", "if (now_ms + (now != now_ms * SL_MS_NS) < log->last_ms) {", 2): WHOLE,
    ("log.c", "look", "log->expired = now_ms >= log->window_ms ? count_expired(log, now_ms - log->window_ms) : 0;", 1):
        "no world is in the first milliseconds of 1970",
    ("log.c", "wait_for", "sluice_ns wait = (instant + log->window_ms) * SL_MS_NS - log->t, "
                          "most = (log->window_ms + 1) * SL_MS_NS;", 1): DAMAGED,
    ("log.c", "wait_for", "return wait - 1 < most ? wait : most;", 1): DAMAGED,
    ("log.c", "sl_log_step", "uint32_t quota = limit->quota, used = log->total - log->base, "
                             "room = quota > used ? quota - used : 0;", 1): SAME,
    ("log.c", "count_distinct", "distinct += distinct == 0 || instant != before;", 1): SIZE,
    ("log.c", "plan", "*entries = (uint64_t)live + 1;", 1): ROUNDED,
    ("log.c", "plan", "if (unit_costs && (uint64_t)distinct * (log->width + 4) >= (uint64_t)live * log->width)", 1):
        SIZE,
    ("log.c", "sl_log_block_bytes", "if (capacity != 0 && need <= capacity && (log->weighted || cost == 1) &&", 1):
        SIZE,
    ("log.c", "sl_log_block_bytes", "if (capacity != 0 && need <= capacity && (log->weighted || cost == 1) &&", 2):
        SIZE,
    ("log.c", "sl_log_block_bytes", "(need > capacity / 4 || capacity <= 4 * ENTRIES_MIN))", 1): SIZE,
    ("log.c", "sl_log_block_bytes", "(need > capacity / 4 || capacity <= 4 * ENTRIES_MIN))", 2): SIZE,
    ("log.c", "sl_log_block_bytes", "entries = sl_max(entries + 1, sl_min(entries + 1 + entries / 8, "
                                    "(uint64_t)limit->quota + 1));", 1): ROUNDED,
    ("log.c", "sl_log_block_bytes", "entries = sl_max(entries + 1, sl_min(entries + 1 + entries / 8, "
                                    "(uint64_t)limit->quota + 1));", 2): SIZE,
    ("log.c", "sl_log_block_bytes", "entries = sl_max(entries + 1, sl_min(entries + 1 + entries / 8, "
                                    "(uint64_t)limit->quota + 1));", 3): SIZE,
    ("log.c", "sl_log_block_bytes", "if (entries > ENTRIES_MAX)", 1): "no world has 2^25 entries",
    ("log.c", "sl_log_prepare", "if (log->expired == 0 || merges(log, live))", 1):
        DEATH,
    ("log.c", "sl_log_instant", "return now / SL_MS_NS + (now % SL_MS_NS != 0) < last_ms ? "
                                "last_ms * SL_MS_NS : now;", 2): WHOLE,
    ("log.c", "is_first", "return k >= log->expired && k < log->count && instant_at(log, k) == ms &&", 1): HINT,
    ("log.c", "is_first", "return k >= log->expired && k < log->count && instant_at(log, k) == ms &&", 2): HINT,
    ("log.c", "is_first", "(k == log->expired || instant_at(log, k - 1) != ms);", 1): HINT,
    ("log.c", "is_first", "(k == log->expired || instant_at(log, k - 1) != ms);", 2): HINT,
    ("log.c", "sl_log_held", "if (first == log->count || instant_at(log, first) != ms)", 1): HELD,
    ("log.c", "sl_log_held", "return sum_at(log, end) - (first == log->expired ? log->base : sum_at(log, first));", 1):
        HELD,
    ("log.c", "sl_log_held", "end = first + 1 == log->count || instant_at(log, first + 1) != ms ? first + 1 : "
                             "find_entry(log, first, ms + 1);", 1): HINT,
    ("log.c", "sl_log_held", "end = first + 1 == log->count || instant_at(log, first + 1) != ms ? first + 1 : "
                             "find_entry(log, first, ms + 1);", 3): HINT,
    ("log.c", "sl_log_trim", "if (used <= counter->keep)", 1): SAME,
    ("log.c", "sl_log_between", "return first < last ? sum_at(&counter->log, last) - sum_at(&counter->log, first) : 0;",
     1): SAME,
    ("log.c", "merges", "return log->weighted && live != 0 && instant_at(log, log->count - 1) == charge_ms(log);", 1):
        "a charge takes an entry of its own instead of another one's, and counts the same",
    ("log.c", "move_entries", "for (uint32_t k = log->expired; k < log->count && used + 2 < to->capacity; k++) {", 2):
        DAMAGED,
    ("log.c", "too_old", "if (log->total - sum_at(log, middle) >= keep)", 1):
        "the entry that would go whole is lowered to nothing instead",
    ("log.c", "sl_log_correct", "for (uint32_t i = 0; i < count; i++)", 1):
        FURTHER,
    ("log.c", "look_back", "return look(limit, counter, last_ms == 0 ? 0 : (last_ms - 1) * SL_MS_NS + 1);", 1): OLD,
    ("log.c", "look_back", "return look(limit, counter, last_ms == 0 ? 0 : (last_ms - 1) * SL_MS_NS + 1);", 2): OLD,
    ("log.c", "sl_log_correct_bytes",
     "return entries > ENTRIES_MAX ? SL_BLOCK_TOO_LARGE : bytes_of(entries, log->width, true);", 1):
        "no world has 2^25 entries",
    ("log.c", "insert", "put(to, k + 1, ms, 0);", 1): OLD,
    ("log.c", "correct_entry", "if (to->last_ms - ms > to->window_ms)", 1): OLD,
    ("log.c", "correct_entry", "held = k < to->count && instant_at(to, k) == ms ? cost_at(to, k) : 0;", 1):
        "what stands after the last entry of a new block is hardly ever that instant",
    ("ledger.c", "sl_reservation_of",
     "sluice_ns end = instant < SLUICE_NEVER - 1 - ttl_ns ? instant + ttl_ns : SLUICE_NEVER - 1;", 1): SAME,
    ("ledger.c", "sl_correct", "for (uint32_t i = 0; i < count; i++)", 1): FURTHER,
    ("ledger.c", "sl_correct", "for (uint32_t i = 0; i < count; i++)", 2):
        "no world reserves of windows that are spread",
    ("ledger.c", "add_returns", "if (++batch->filled == BATCH)", 1): "corrects one at a time instead of 65 together",
    ("ledger.c", "returned", "uint32_t known = ended >= v->known ? v->known : 0;", 1):
        "begins with nothing returned, and returns all again",
    ("ledger.c", "returned", "if (v->limit->algorithm == SLUICE_SLIDING_BUCKETS)", 1): BUNDLED,
    ("ledger.c", "wait_for", "low = (uint32_t)sl_max(middle + 1, sl_min(after, high));", 1): DAMAGED,
    ("ledger.c", "wait_for",
     "return wait < SLUICE_NEVER - 1 - (from - v->t) ? wait + (from - v->t) : SLUICE_NEVER - 1;", 1): SAME,
    ("ledger.c", "ms_at", "return instant / SL_MS_NS + (instant % SL_MS_NS != 0);", 1):
        "whole milliseconds, as the worlds ask, are all one more, and are only compared with each other",
    ("ledger.c", "find_shares", "for (uint32_t i = 0; i < v->ledger->count && i < SHARES_MAX; i++)", 1):
        "what stands after the last one has a share that nobody reads",
    ("ledger.c", "find_shares", "for (uint32_t i = 0; i < v->ledger->count && i < SHARES_MAX; i++)", 2): MANY,
    ("ledger.c", "sharing_behind",
     "while (first != 0 && ms_of(&v->ledger->list[first - 1]) == ms_of(&v->ledger->list[kept - 1]))", 1): MANY,
    ("ledger.c", "sharing_behind",
     "while (first != 0 && ms_of(&v->ledger->list[first - 1]) == ms_of(&v->ledger->list[kept - 1]))", 2): MANY,
    ("ledger.c", "sharing_behind", "for (uint32_t i = first; i < kept; i++)", 1): MANY,
    ("ledger.c", "log_used", "struct sharing sharing = sharing_behind(v, copy, kept < ended ? kept : 0);", 1): MANY,
    ("ledger.c", "log_used", "back += v->crowd_count != 0 ? crowds_back(v, copy, ended) : 0;", 1): BUNDLED,
    ("ledger.c", "log_wait", "if (log_used(v, &copy, ended, from) <= keep)", 1): DAMAGED,
    ("ledger.c", "log_wait", "return sl_min(sl_max(until, v->t + 1) - v->t, v->limit->window_ns + SL_MS_NS);", 1):
        DAMAGED,
    ("ledger.c", "step_log", "sl_decide_room(decision, quota, quota > used ? quota - used : 0, cost);", 1): SAME,
    ("subs.c", "what_stays", "total = total > leaves ? total - leaves : 0; /* less only if damaged */", 1): SAME,
    ("subs.c", "look", "if (counter->block_bytes < ring_of(s) * sizeof(uint16_t)) { /* 0 without a block */", 1): EVEN,
    ("subs.c", "look", "last_b = last >= s->t - s->r ? s->b : to_sub_bucket(limit, last, &into);", 1):
        "at the edge the division says the same",
    ("subs.c", "look", "if (total > TOTAL_MAX)", 1): LARGE,
    ("subs.c", "look", "if (s->moved < s->n)", 1): "of the n newest all have left, and what stays of them is 0 as well",
    ("subs.c", "look", "s->full = total > TOTAL_MAX ? sum_of_newest(s, s->n - s->moved) : what_stays(s, total);", 1):
        LARGE,
    ("subs.c", "skip_empty", "while (age != 0 && cell(s, age) == 0) {", 1): EIGHT,
    ("subs.c", "skip_empty",
     "if (age > s->stale + together && slot + together <= s->n) /* the ring does not end among them */", 1): EIGHT,
    ("subs.c", "skip_empty",
     "if (age > s->stale + together && slot + together <= s->n) /* the ring does not end among them */", 2): EIGHT,
    ("subs.c", "skip_empty", "slot = slot + step <= s->n ? slot + step : 0;", 1):
        "looks at eight from the next one on, and the first has been looked at by itself",
    ("subs.c", "subs_retry", "if (old == 0 && s->moved + k < s->n) /* that empty ones leave changes nothing */", 2):
        SAME,
    ("subs.c", "subs_retry", "full = s->moved + k < s->n && full > old ? full - old : 0;", 1): SAME,
    ("subs.c", "subs_retry", "full = s->moved + k < s->n && full > old ? full - old : 0;", 2): SAME,
    ("subs.c", "subs_reset", "while (age < last && cell(s, age) == 0)", 1): SAME,
    ("subs.c", "sl_subs_step", "uint64_t room = quota > used ? quota - used : 0;", 1): SAME,
    ("subs.c", "set_total", "counter->state.w[1] = (total <= TOTAL_MAX ? total : UINT32_MAX) << 32 | "
                            "(uint32_t)counter->state.w[1];", 1): LARGE,
    ("subs.c", "sl_subs_block_bytes", "if (s->cells != NULL && (!s->narrow || own + cost <= NARROW_MAX))", 2): SIZE,
    ("subs.c", "sl_subs_block_bytes",
     "return own + cost <= NARROW_MAX ? narrow_bytes(limit) : sl_subs_wide_bytes(limit);", 1): SIZE,
    ("subs.c", "sl_subs_most_bytes",
     "return limit->quota <= NARROW_MAX ? narrow_bytes(limit) : sl_subs_wide_bytes(limit);", 1): SIZE,
    ("subs.c", "sl_subs_move", "if (counter->block_bytes < narrow_bytes(limit))", 1): EVEN,
    ("subs.c", "sl_subs_move", "for (uint64_t slot = 0; slot < ring; slot++)", 1):
        "moves what stands after the last cell, in what blocks are rounded up by; sanitizers see it",
    ("subs.c", "sl_subs_prepare",
     "return counter->state.w[0] != before.w[0] || counter->state.w[1] != before.w[1];", 1): DEATH,
    ("subs.c", "sl_subs_prepare",
     "return counter->state.w[0] != before.w[0] || counter->state.w[1] != before.w[1];", 2): DEATH,
    ("subs.c", "refund_end", "return s->moved < reach ? reach - s->moved : 0;", 1): SAME,
    ("subs.c", "sl_subs_prepare_refund", "if (cost == 0 || sum_of_newest(s, refund_end(limit, s)) == 0)", 1): DEATH,
    ("subs.c", "sl_subs_prepare_refund", "if (cost == 0 || sum_of_newest(s, refund_end(limit, s)) == 0)", 2): DEATH,
    ("subs.c", "sl_subs_prepare_refund", "return counter->state.w[1] != before;", 1): DEATH,
    ("subs.c", "sl_subs_refund", "if (left == cost)", 1):
        "the total stays unknown, as it was made before, and is the sum of the cells",
    ("terms.c", "sl_strikes_stand", "standing.ends_after_ns = end > t ? end - t : 0;", 1): SAME,
    ("terms.c", "sl_strikes_life", "if (terms->penalty_count == 0)", 1): ROOM,
    ("terms.c", "sl_strikes_life", "if (strikes->level != 0)", 1): ROOM,
    ("terms.c", "sl_strikes_life", "for (uint32_t i = 0; i < count; i++)", 1): ROOM,
    ("terms.c", "sl_strikes_life", "return end > now ? end - now : 0;", 1): ROOM,
}


class Mistake:
    def __init__(self, file, function, line, nth, start, end, token, text):
        self.name = (file, function, line, nth)
        self.file, self.token = file, token
        self.text = text[:start] + TURNED[token] + text[end:]

    def __str__(self):
        file, function, line, nth = self.name
        return "%s %s: %s -> %s%s in `%s`" % (file, function, self.token, TURNED[self.token] or "gone",
                                              " (%d)" % nth if nth > 1 else "", line)


def mistakes_of(file):
    with open(os.path.join(ROOT, "src/algo", file), encoding="utf-8") as f:
        text = f.read()
    found, function, seen = [], "", {}
    heads = [(m.start(), m.group(1)) for m in HEAD.finditer(text)]
    for match in TOKEN.finditer(text):
        start = text.rfind("\n", 0, match.start()) + 1
        line = text[start:text.find("\n", start)]
        if match.group() not in TURNED or SPARED.match(line) or line.startswith(("static", "struct", "void")):
            continue
        if match.group() == "+ 1" and file not in LISTS:
            continue
        function = ([name for at, name in heads if at < match.start()] or [""])[-1]
        if function not in DECIDING[file]:
            continue
        key = (function, line.strip())
        seen[key] = seen.get(key, 0) + 1
        found.append(Mistake(file, function, line.strip(), seen[key], match.start(), match.end(), match.group(), text))
    return found


@pytest.fixture(scope="module")
def flags():
    """The compiler and its flags, as the Makefile has recorded them."""
    programs = sorted({"build/tests/model/" + world for worlds in WORLDS.values() for world in worlds})
    done = subprocess.run(["make", "--no-print-directory", *programs], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout[-2000:]
    with open(os.path.join(ROOT, "build/flags"), encoding="utf-8") as file:
        return shlex.split(file.read())


def compiled(flags, mistake, folder):
    """The object of a file that has the mistake, or None where it does not compile: that says nothing."""
    source = os.path.join(folder, mistake.file)
    with open(source, "w", encoding="utf-8") as f:
        f.write(mistake.text)
    compile_ = [word for word in flags if not word.startswith("-l") and word != "-c"]
    done = subprocess.run(compile_ + ["-w", "-c", source, "-o", source + ".o"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return source + ".o" if done.returncode == 0 else None


def linked(world, made, folder):
    program, target = os.path.join(folder, world), "build/tests/model/" + world
    link = subprocess.run(["make", "--no-print-directory", "-n", "-W", "tests/model/%s.c" % world, target], cwd=ROOT,
                          text=True, stdout=subprocess.PIPE, check=True, env=ENVIRONMENT)
    words = shlex.split([line for line in link.stdout.splitlines() if " -o " + target in line][-1])
    words[words.index(target)] = program
    words.insert(words.index("build/libtests.a"), made)
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return program


def bounded():
    """Of processor, not of time: on a busy machine nothing else is found."""
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS_MAX, PROCESSOR_SECONDS_MAX))


def fails(program, kinds):
    for kind in kinds:
        done = subprocess.run([program], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**ENVIRONMENT, "SLUICE_WORLDS": kind}, preexec_fn=bounded)
        if done.returncode != 0:
            return True
    return False


def tried(flags, mistake, folder):
    start = time.monotonic()
    os.makedirs(folder)
    made = compiled(flags, mistake, str(folder))
    found = made and any(fails(linked(world, made, str(folder)), kinds)
                         for world, kinds in WORLDS[mistake.file].items())
    verdict = "does not compile" if made is None else "found" if found else \
        "unseen" if mistake.name in UNSEEN else "NOT FOUND"
    print("%-16s %5.1f s  %s" % (verdict, time.monotonic() - start, mistake), flush=True)
    return verdict


@pytest.mark.parametrize("file", [os.environ["SLUICE_TURNED"]] if "SLUICE_TURNED" in os.environ else list(WORLDS))
def test_small_worlds_find_every_mistake(file, flags, tmp_path):
    mistakes = mistakes_of(file)
    unknown = [name for name in UNSEEN if name[0] == file and name not in [m.name for m in mistakes]]
    assert not unknown, "no such comparison: %s" % unknown
    for world, kinds in WORLDS[file].items():
        assert not fails(os.path.join(ROOT, "build/tests/model", world), kinds), "without any mistake"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        verdicts = list(pool.map(lambda i: tried(flags, mistakes[i], tmp_path / str(i)), range(len(mistakes))))
    counts = {word: verdicts.count(word) for word in sorted(set(verdicts))}
    print("kept: %s: %d mistakes: %s" % (file, len(mistakes), counts))
    assert not counts.get("NOT FOUND")
