"""What we hand to those who watch: the alerts pass their own tests, every expression of the dashboard parses and names
what a server tells (docs/metrics.md and the source agree on the names), and the dashboard's own references hold."""
import json
import os
import re
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULES = os.path.join(ROOT, "examples", "prometheus")
NAME = re.compile(r"\b((?:sluice|process)_[a-z_]+)\b")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def promtool(*arguments, cwd=RULES):
    done = subprocess.run(["promtool", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def told():
    """The families that the server's source names, as the plain form calls them."""
    source = read("hosts", "server", "http", "metrics.c")
    found = set()
    for call in re.finditer(r'"((?:sluice|process)_[a-z_]+)",?\s*(SL_PROM_[A-Z]+)?', source):
        counter = call[2] == "SL_PROM_COUNTER" or call[1] in ROWS
        found.add(call[1] + "_total" if counter else call[1])
    return found


# put_rows(): all counters
ROWS = {"sluice_decisions", "sluice_hits", "sluice_near_limit", "sluice_candidate_denied", "sluice_penalties",
        "sluice_bounds", "sluice_failed_open", "sluice_failed_open_seconds",
        *(f"sluice_envoy_{what}" for what in ("total_hits", "over_limit", "near_limit", "within_limit", "shadow_mode"))}


@pytest.fixture(scope="module")
def dashboard():
    return json.loads(read("examples", "grafana", "sluice.json"))


def panels(dashboard):
    return [p for p in dashboard["panels"] if p["type"] != "row"]


def filled_in(expression):
    filled = expression
    for variable, value in (("$__rate_interval", "5m"), ("$job", "sluice"), ("$instance", "a"), ("$policy", "login"),
                            ("$backend_job", "api"), ("$backend", "api_seconds_bucket")):
        filled = filled.replace(variable, value)
    return filled


def expressions(dashboard):
    own = [t["expr"] for p in panels(dashboard) for t in p["targets"]]
    return own + [a["expr"] for a in dashboard["annotations"]["list"] if "expr" in a]


def test_alerts_are_rules_and_do_what_their_tests_say():
    assert "17 rules found" in promtool("check", "rules", "alerts.yml")
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")
    promtool("check", "config", "scrape.yml")


def test_every_alert_has_a_test_that_it_fires_and_one_that_it_is_silent():
    tests = read("examples", "prometheus", "alerts_test.yml")
    for alert in re.findall(r"alert: (\w+)", read("examples", "prometheus", "alerts.yml")):
        assert re.search(rf"alertname: {alert}, exp_alerts: \[\]", tests), alert
        assert re.search(rf"alertname: {alert}\n\s+exp_alerts:\n\s+- exp_labels", tests), alert
        assert f"`{alert}`" in read("docs", "metrics.md"), alert


def test_every_expression_of_the_dashboard_parses(dashboard, tmp_path):
    rules = [{"record": f"check:{i}", "expr": filled_in(e)} for i, e in enumerate(expressions(dashboard))]
    assert all("$" not in r["expr"] for r in rules)
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", "rules.yml", cwd=tmp_path)


def test_dashboard_and_alerts_name_only_what_a_server_tells(dashboard):
    families = told()
    assert len(families) > 30
    used = set(NAME.findall("\n".join(expressions(dashboard)) + json.dumps(dashboard["templating"])))
    used |= set(NAME.findall("\n".join(re.findall(r"expr: (.*?)\n\s+for:", read("examples", "prometheus", "alerts.yml"),
                                                  re.S))))
    for name in used:
        assert name in families or SUFFIX.sub("", name) in families, name


def test_the_document_has_every_metric_and_no_other():
    text = read("docs", "metrics.md")
    rows = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    documented = set(NAME.findall(rows))
    own = {name for name in told() if name.startswith("sluice_")}
    assert {name for name in documented if name.startswith("sluice_")} == own
    assert "process_*" in rows


def test_what_the_dashboard_refers_to_is_there(dashboard):
    source = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
    assert [i["name"] for i in dashboard["__inputs"]] == ["DS_PROMETHEUS"]
    names = [v["name"] for v in dashboard["templating"]["list"]]
    assert names == ["job", "instance", "policy", "backend", "backend_job"]
    assert all(v["datasource"] == source for v in dashboard["templating"]["list"])
    for panel in panels(dashboard):
        assert panel["datasource"] == source and all(t["datasource"] == source for t in panel["targets"])
        assert len({t["refId"] for t in panel["targets"]}) == len(panel["targets"])
    for expression in expressions(dashboard):
        variables = set(re.findall(r"\$(\w+)", expression)) - {"__rate_interval"}
        of = {"backend", "backend_job"} if "$backend" in expression else {"job", "instance"}
        assert of <= variables <= set(names), expression
        assert "[5m]" not in expression, "rates follow the resolution: $__rate_interval"


def test_no_panel_lies_on_another(dashboard):
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
    assert [p["title"] for p in dashboard["panels"] if p["type"] == "row"] == [
        "Now", "Traffic", "Denials", "Latency", "Keys and memory", "Errors", "Fleet", "Leases, reservations, penalties"]
