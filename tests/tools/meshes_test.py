"""examples/kubernetes: what the gateways are told (address, port, domain, keys) is what the policy and the Service
beside them say."""
import os
import re
import subprocess

import pytest
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "examples", "kubernetes")
SLUICE = os.environ.get("SLUICE_BIN", os.path.join(ROOT, "build", "sluice"))
OF_OTHERS = ("sluice.yaml", "sidecar.yaml", "fleet.yaml")  # the server as a gateway's service, and without one
GATEWAYS = sorted(name for name in os.listdir(FOLDER) if name not in OF_OTHERS)
KEYS = {"remote_address": "ip", "remoteAddress": "ip"}  # as the gRPC door has it


def documents(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def one(kind):
    found = [document for document in documents("sluice.yaml") if document["kind"] == kind]
    assert len(found) == 1
    return found[0]


POLICY_TEXT = one("ConfigMap")["data"]["policy.yaml"]
POLICY = yaml.safe_load(POLICY_TEXT)
SERVICE = one("Service")
PORT = int(POLICY["listen"]["grpc"]["address"].rsplit(":", 1)[1])
ADDRESS = "{name}.{namespace}.svc.cluster.local".format(**SERVICE["metadata"])


def walk(value):
    """All that a document says: (key, value)."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield key, inside
            yield from walk(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from walk(inside)


def said(name, *keys):
    """The words and numbers that a document has for these keys."""
    return {value for document in documents(name) for key, value in walk(document)
            if key in keys and isinstance(value, (str, int))}


def test_there_are_four_and_the_document_has_them_all():
    with open(os.path.join(ROOT, "docs", "meshes.md"), encoding="utf-8") as file:
        text = file.read()
    assert GATEWAYS == ["ai-gateway.yaml", "contour.yaml", "envoy-gateway.yaml", "istio.yaml"]
    for name in [*GATEWAYS, "sluice.yaml"]:
        assert f"../examples/kubernetes/{name})" in text


def test_the_policy_is_fine(tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY_TEXT, encoding="utf-8")
    done = subprocess.run([SLUICE, "lint", str(path)], capture_output=True, text=True, timeout=20, check=False)
    said = re.findall(r": ((?:error|warning): .*)", done.stdout + done.stderr)
    assert said == ["warning: unprotected: every client that can connect may check, reset and reload"]  # as it says


def test_the_service_leads_to_the_listener():
    container = one("Deployment")["spec"]["template"]["spec"]["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [port["port"] for port in SERVICE["spec"]["ports"]] == [PORT]
    assert ports[SERVICE["spec"]["ports"][0]["targetPort"]] == PORT
    assert container["readinessProbe"]["grpc"]["port"] == PORT
    assert POLICY["listen"]["grpc"]["address"].startswith("0.0.0.0:")


@pytest.mark.parametrize("name", GATEWAYS)
def test_gateways_ask_what_the_policy_limits(name):
    domains = said(name, "domain")
    assert len(domains) == 1
    limits = [limit for limit in POLICY["limits"] if limit["when"]["domain"] in domains]
    assert limits
    asked = said(name, "descriptor_key", "descriptorKey")
    asked |= {KEYS[key] for document in documents(name) for key, _ in walk(document) if key in KEYS}
    assert asked == {limit["key"] for limit in limits}


@pytest.mark.parametrize("name", GATEWAYS)
def test_gateways_ask_there(name):
    if name == "contour.yaml":
        service = next(one for one in documents(name) if one["kind"] == "ExtensionService")
        assert service["metadata"]["namespace"] == SERVICE["metadata"]["namespace"]
        assert service["spec"]["services"] == [{"name": SERVICE["metadata"]["name"], "port": PORT}]
        configuration = next(one for one in documents(name) if one["kind"] == "ContourConfiguration")
        assert configuration["spec"]["rateLimitService"]["extensionService"] == service["metadata"]
        return
    clusters = [value for value in said(name, "cluster_name") if "|" in value]
    if clusters:
        assert clusters == [f"outbound|{PORT}||{ADDRESS}"]
    else:
        assert said(name, "address") == {ADDRESS} and said(name, "port_value") == {PORT}
        assert said(name, "cluster_name") == {"sluice"}


def test_the_page_has_the_policy():
    with open(os.path.join(ROOT, "docs", "meshes.md"), encoding="utf-8") as file:
        (block,) = re.findall(r"^```yaml\n(limits:\n.*?)^```", file.read(), re.M | re.S)
    assert yaml.safe_load(block)["limits"] == POLICY["limits"]


def test_the_page_says_no_other_port():
    with open(os.path.join(ROOT, "docs", "meshes.md"), encoding="utf-8") as file:
        assert set(re.findall(r":(\d{4,5})\b", file.read())) <= {str(PORT)}
