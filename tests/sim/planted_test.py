"""Mistakes that are planted on purpose, one at a time, into a copy of a source file: the simulated fleet has to find
each within a minute of processor. What it does not find here it would not find in earnest.

    tests/run --only sim/planted            all of them
    pytest tests/sim/planted_test.py -k moved -s

Each is a text that stands once in a file, and what is put in its place: when the code has moved on,
tests/tools/mistakes_test.py fails and says so, and the mistake is planted anew where it now belongs.
"""
import os
import re
import shlex
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECONDS = 60
CLUSTER, REMOTE, MODULE = "hosts/server/cluster/", "hosts/server/remote/", "hosts/redis/"

PLANTED = {
    "a slice spent twice":
        (REMOTE + "slice.c", "l->left += more;", "l->left += granted;"),
    "a slice not returned at its end":
        (REMOTE + "slice.c", "(void)(busy ? ask(l, now) : order(l, 0, now));", "(void)(busy && ask(l, now));"),
    "a wait for slices without an end":
        (REMOTE + "slice.c", "if (l->first != NULL && now >= l->first->until)", "if (l->held == UINT32_MAX)"),
    "a hold forgotten at failover":
        (MODULE + "commit.c", "\tif (holds_changed)\n\t\tslr_effect_holds(&m->key->effects, counter);",
         "\t(void)holds_changed;"),
    "a hold that nobody cancels":
        (REMOTE + "lane.c", "if (command != NULL && (may_hold || lane->left != 0))",
         "if (command != NULL && may_hold)"),
    "a late answer counted":
        (CLUSTER + "nodes.c", "\task->answered(ask, &late);",
         "\tif (node->first == pending)\n\t\t(void)sl_node_shift(node);\n\task->answered(ask, &late);"),
    "a clock leap":
        ("src/algo/log.c", "\t\tnow_ms = log->last_ms;\n\t\tlog->t = now_ms * SL_MS_NS;",
         "\t\tnow_ms += log->window_ms;"),
    "an answer given to the wrong request after a reconnect":
        (CLUSTER + "node.c", "\t\t\tsl_nodes_finish_as(nodes, pending, SL_ANSWER_LOST);",
         "\t\t\tpending->next = node->first, node->last = node->first == NULL ? pending : node->last,"
         " node->first = pending;"),
    "a MOVED followed without asking again":
        (CLUSTER + "answers.c", "\telse if (moved)\n\t\tagain(nodes, pending);",
         "\telse if (moved)\n\t\tsl_nodes_finish_as(nodes, pending, SL_ANSWER_AWAY);"),
    "an ASK followed without ASKING":
        (CLUSTER + "answers.c", "!sl_node_command(to, SL_COMMAND_ASKING, 1, &asking) || ", "asking.len == 0 || "),
    "a budget not enforced":
        (CLUSTER + "nodes.c", "sl_pending_commands_set_due(&nodes->commands, pending, ask->deadline)",
         "sl_pending_commands_set_due(&nodes->commands, pending, ask->deadline + 4 * nodes->budget_ns)"),
    "a circuit that never closes":
        (CLUSTER + "node.c", "\tif (!node->open)\n\t\treturn;\n\tnode->open = false;",
         "\tif (node->open || !node->open)\n\t\treturn;\n\tnode->open = false;"),
    "an own quota: a front keeps the old one for its slice":
        (REMOTE + "slice.c", "\tl->quota = peek.quota;", "\tl->quota = l->told ? l->quota : peek.quota;"),
    "an own quota: DEL forgets what was spent":
        (MODULE + "override_command.c",
         "\t\tslr_value_remove(&key->value, identity);\n\t\tif (request.call->heard)\n"
         "\t\t\tslr_effect_gone(&key->effects, identity);",
         "\t\tslr_value_remove(&key->value, identity);\n\t\tslr_value_remove(&key->value, sl_identity_of(&limit));\n"
         "\t\tif (request.call->heard) {\n\t\t\tslr_effect_gone(&key->effects, identity);\n"
         "\t\t\tslr_effect_gone(&key->effects, sl_identity_of(&limit));\n\t\t}"),
    "an own quota: its end is ignored":
        (MODULE + "own_quota.c", "return now < own->end && apply(own, rule);", "return (void)now, apply(own, rule);"),
    "an own quota: what a front spends meanwhile is not held under a lower one":
        (MODULE + "slice.c", "sl_max(room.remaining, held - change.charge)", "(uint64_t)room.remaining"),
    "an own quota: replicas are not told of it":
        (MODULE + "override_command.c", "\tif (request->call->heard)\n\t\tslr_effect_whole(",
         "\tif (!request->call->heard)\n\t\tslr_effect_whole("),
    "an own quota: a list leaves out those that end soon":
        (MODULE + "override_command.c", "if (own == NULL || own->end <= l->now)",
         "if (own == NULL || own->end <= l->now + 60000000000)"),
    "a doubled charge after a retry":
        (REMOTE + "remote_call.c", "\tgroup->ask.deadline = remote->batch->deadline;\n",
         "\tgroup->ask.deadline = remote->batch->deadline - fleet_of(remote)->budget_ns / 2;\n",
         "\ttake_answer(remote, group, answer);\n",
         "\tif (answer->kind == SL_ANSWER_LATE && group->phase++ == 0) {\n"
         "\t\tgroup->ask.deadline = remote->batch->deadline;\n"
         "\t\tif (sl_fleet_ask(fleet_of(remote), group))\n\t\t\treturn;\n\t}\n"
         "\ttake_answer(remote, group, answer);\n"),
}


def built(*arguments):
    done = subprocess.run(["make", "--no-print-directory", *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          env={k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))})
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.fixture(scope="module")
def flags():
    """The compiler and its flags, as the Makefile has recorded them."""
    built("build/tests/sim/fleet_test")
    with open(os.path.join(ROOT, "build/flags"), encoding="utf-8") as file:
        return shlex.split(file.read())


def planted(path, *texts):
    """The source with the mistake. `texts` are pairs: what stands there, and what is put in its place."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        source = file.read()
    for text, instead in zip(texts[::2], texts[1::2], strict=True):
        assert source.count(text) == 1, f"{path} has this {source.count(text)} times, expected once: {text}"
        source = source.replace(text, instead)
    return source


def plant(flags, tmp_path, path, *texts):
    source = planted(path, *texts)
    copy = tmp_path / os.path.basename(path)
    copy.write_text(source)
    made = str(copy) + ".o"
    subprocess.run([*flags, "-w", "-c", str(copy), "-o", made], cwd=ROOT, check=True)
    program = str(tmp_path / "fleet_test")
    built("build/tests/sim/fleet_test", "PLANTED=" + made, "PLANTED_OUT=" + program,
          "PLANTED_OBJ=build/obj/" + path[:-2] + ".o")
    return program


@pytest.mark.parametrize("what", PLANTED)
def test_it_is_found(what, flags, tmp_path):
    program = plant(flags, tmp_path, *PLANTED[what])
    done = subprocess.run([program], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "SLUICE_SIM_SECONDS": str(SECONDS), "SLUICE_SIM_LONG": "1",
                               "SLUICE_SEED": os.environ.get("SLUICE_SEED", "1")})
    found = re.search(r"^found: .*", done.stdout, re.M)
    assert done.returncode != 0 and found, f"{what}: not found in {SECONDS} s of processor\n{done.stdout[-1500:]}"
    print(f"{what}: {found.group(0)}")
