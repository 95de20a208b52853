"""The examples that docs/install.md names: their policies load, their manifests agree with themselves, and the
application of examples/compose asks a real server."""
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import yaml

from harness import DEADLINE_S, ROOT

EXAMPLES = os.path.join(ROOT, "examples")
TOKEN = "sha256:" + "0" * 64


def documents(name):
    with open(os.path.join(EXAMPLES, name), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def kind(name, word):
    return next(document for document in documents(name) if document["kind"] == word)


@pytest.mark.parametrize("name,warnings", [
    ("kubernetes/sidecar.yaml", set()),
    ("kubernetes/fleet.yaml", {"passwords and tokens cross the network in clear text here: tls: true protects them"}),
])
def test_policies_of_manifests_load(name, warnings, tmp_path, sluice_bin):
    path = tmp_path / "policy.yaml"
    path.write_text(kind(name, "ConfigMap")["data"]["policy.yaml"])
    done = subprocess.run([sluice_bin, "lint", path], capture_output=True, text=True, timeout=DEADLINE_S, check=False,
                          env={**os.environ, "SLUICE_TOKEN": TOKEN})
    assert not re.search(": error: ", done.stdout)
    assert set(re.findall(": warning: (.*)", done.stdout)) == warnings


@pytest.mark.parametrize("name", ["kubernetes/sidecar.yaml", "kubernetes/fleet.yaml"])
def test_manifests_agree_with_themselves(name):
    template = kind(name, "Deployment")["spec"]["template"]["spec"]
    container = next(each for each in template["containers"] if each["name"] == "sluice")
    assert container["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in template["volumes"]}
    assert template["volumes"][0]["configMap"]["name"] == kind(name, "ConfigMap")["metadata"]["name"]
    assert "/etc/sluice/policy.yaml" in container["args"]
    for word in ("resp", "http") if name.endswith("fleet.yaml") else ():
        port = next(each["containerPort"] for each in container["ports"] if each["name"] == word)
        listen = yaml.safe_load(kind(name, "ConfigMap")["data"]["policy.yaml"])["listen"][word]
        assert listen.endswith(":%d" % port)


def test_compose_names_what_there_is():
    services = documents("compose/compose.yaml")[0]["services"]
    for service in services.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert not source.startswith("./") or os.path.exists(os.path.join(EXAMPLES, "compose", source))
    assert services["app"]["environment"]["SLUICE"] == "http://sluice:7380"
    assert "0.0.0.0:7380" in services["sluice"]["command"]
    assert services["sluice"]["healthcheck"]["test"] == ["CMD", "/usr/bin/sluice", "ready"]


@pytest.mark.parametrize("name", ["sluice", "sidecar", "fleet"])
def test_the_image_is_that_of_the_release(name):
    """Without a tag a kubelet asks a registry for the newest, each time."""
    pod = kind(f"kubernetes/{name}.yaml", "Deployment")["spec"]["template"]["spec"]
    image = next(one["image"] for one in pod["containers"] if one["name"] == "sluice")
    with open(os.path.join(ROOT, "include", "sluice.h"), encoding="utf-8") as file:
        version = re.search(r'define SLUICE_VERSION "(.*)"', file.read())[1]
    assert image == "sluice:" + version


def test_the_application_asks(server, tmp_path):
    """But for its patience: after 0.2 s, which a busy machine may need, it lets the request pass."""
    one = server("limits: [{name: per-client, key: ip, limit: 2/1h}]\n")
    with open(os.path.join(EXAMPLES, "compose", "app.py"), encoding="utf-8") as file:
        text = file.read()
    assert "timeout=0.2" in text
    (tmp_path / "app.py").write_text(text.replace("timeout=0.2", "timeout=60"), encoding="utf-8")
    app = subprocess.Popen([sys.executable, tmp_path / "app.py"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True,
                           env={**os.environ, "SLUICE": "http://127.0.0.1:%d" % one.http_port, "PORT": "0"})
    port = int(app.stdout.readline().split()[-1])

    def get():
        try:
            with urllib.request.urlopen("http://127.0.0.1:%d/" % port, timeout=DEADLINE_S) as answer:
                return answer.status, None
        except urllib.error.HTTPError as answer:
            return answer.code, answer.headers["Retry-After"]
    try:
        assert [get(), get()] == [(200, None)] * 2
        status, wait = get()
        assert status == 429 and 0 < int(wait) <= 7200
    finally:
        app.terminate()
        app.wait(DEADLINE_S)
        app.stdout.close()
