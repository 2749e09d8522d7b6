"""The compose file and the Kubernetes manifests of a cluster: valid, and about what the image and its commands have."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from click import Command
from typer.main import get_command

from refaug.cli.main import app
from refaug.extras.cluster.search.node_copies import VARIABLE
from refaug.service.server_settings import ServeSettings

ROOT = Path(__file__).resolve().parents[4]
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
OBJECTS = [(path.name, found) for path in MANIFESTS for found in yaml.safe_load_all(path.read_text("utf-8"))]
WORKLOADS = [(name, found) for name, found in OBJECTS if found["kind"] in ("Deployment", "StatefulSet")]
COMPOSE = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text("utf-8"))
SERVICES = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
PAGE = (ROOT / "docs" / "beyond-one-machine.md").read_text("utf-8")
SECRET = {"RAY_AUTH_TOKEN", "REDIS_PASSWORD", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
KNOWN = SECRET | {"RAY_AUTH_MODE", "RAY_USAGE_STATS_ENABLED", "RAY_REDIS_ADDRESS", "REFAUG_STORE", VARIABLE}
HEALTH_KEYS = {"test", "interval", "timeout", "start_period", "retries"}
SERVICE_KEYS = {
    *("build", "image", "init", "volumes", "environment", "shm_size", "read_only", "cap_drop", "security_opt"),
    *("restart", "entrypoint", "command", "depends_on", "stop_grace_period", "healthcheck", "ports", "user"),
    "network_mode",
}


def named(found):
    return f"{found['kind']}/{found['metadata']['name']}"


@pytest.mark.parametrize(("file", "found"), OBJECTS, ids=lambda one: one if isinstance(one, str) else named(one))
@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_kubernetes_knows_every_field(file, found, version):
    assert file
    kubernetes_validate.validate(found, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_refused():
    _, found = WORKLOADS[0]
    altered = {**found, "spec": {**found["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(altered, kubernetes_validate.latest_version(), strict=True)


def commands_in(words):
    """The commands of a container, and those in a script that a shell is given."""
    if words[0] in ("sh", "bash"):
        script = words[2].replace("$$", "$")
        for line in re.findall(r"\b(?:ray|refaug|redis-server|redis-cli) [^&|;\n]*", script.replace("\n--", " --")):
            yield shlex.split(line)
    else:
        yield words


def options_of(command: Command):
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def assert_is_a_command(words):
    """The command and its options exist."""
    program, *words = words
    if program in ("install", "python") or program.startswith("redis"):
        return
    command = get_command(app) if program == "refaug" else ray_command()
    while getattr(command, "commands", None):
        command = command.commands[words.pop(0)]
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert given <= options_of(command), given - options_of(command)


def ray_command():
    from ray.scripts.scripts import cli  # noqa: PLC0415  it reads the token when it is imported

    return cli


def test_commands_of_the_manifests_exist():
    seen = []
    for _, found in WORKLOADS:
        (container,) = found["spec"]["template"]["spec"]["containers"]
        probes = [container[name] for name in container if name.endswith("Probe")]
        hooks = list(container.get("lifecycle", {}).values())
        for words in [
            [*container["command"], *container.get("args", ())],
            *(probe["exec"]["command"] for probe in [*probes, *hooks] if "exec" in probe),
        ]:
            for command in commands_in(words):
                assert_is_a_command(command)
                seen.append(" ".join(command[:2]))
    assert {"ray start", "refaug serve", "ray health-check", "ray drain-node"} <= set(seen)


def test_commands_of_the_compose_file_exist():
    seen = []
    for service in SERVICES.values():
        entrypoint = service.get("entrypoint", [] if service["image"] != "refaug" else ["refaug"])
        check = service.get("healthcheck", {}).get("test", [])
        for words in [
            [*entrypoint, *service["command"]],
            ["sh", "-c", *check[1:]] if check[:1] == ["CMD-SHELL"] else check[1:],
        ]:
            for command in commands_in(words) if words else ():
                assert_is_a_command(command)
                seen.append(" ".join(command[:2]))
    assert {"ray start", "refaug serve", "ray health-check"} <= set(seen)


def test_commands_of_ray_on_the_page_parse():
    seen = set()
    internals = (ROOT / "docs" / "internals" / "cluster.md").read_text("utf-8")
    for line in re.findall(r"^    (ray [^#\n]*)", PAGE + internals, re.MULTILINE):
        command, words = ray_command(), shlex.split(line)[1:]
        names = []
        while getattr(command, "commands", None):
            names.append(words[0])
            command = command.commands[words.pop(0)]
        command.make_context(" ".join(names), words)
        seen.add(" ".join(names))
    assert seen == {"start", "job submit", "drain-node"}


def test_the_head_on_the_page_that_takes_jobs_listens_outside():
    (host,) = [option for option in ray_command().commands["start"].params if "--dashboard-host" in option.opts]
    assert host.default in ("127.0.0.1", "::1")  # which is why the page names another one
    inside = (ROOT / "docs" / "internals" / "cluster.md").read_text("utf-8")
    jobs = inside.split("## From outside the cluster\n")[1].partition("\n#")[0]
    assert re.search(r"^    ray start --head --dashboard-host HEAD\b", jobs, re.MULTILINE)
    heads = [SERVICES["head"]["command"], next(o["spec"] for n, o in WORKLOADS if n == "head.yaml")]
    assert all("--include-dashboard=false" in str(head) for head in heads)  # as the page says


@pytest.mark.parametrize(("file", "found"), WORKLOADS, ids=lambda one: one if isinstance(one, str) else named(one))
def test_pods_have_requests_probes_and_no_rights(file, found):
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert "memory" in container["resources"]["limits"]
    assert "readinessProbe" in container
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    claims = [claim["metadata"]["name"] for claim in found["spec"].get("volumeClaimTemplates", [])]
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        *claims,
        *(volume["name"] for volume in pod.get("volumes", [])),
    }
    assert file
    if container["image"] == "refaug":
        user = int(re.search(r"^USER (\d+):", DOCKERFILE, re.MULTILINE)[1])
        assert pod["securityContext"]["runAsUser"] == user
        assert container["envFrom"] == [
            {"configMapRef": {"name": "refaug-cluster"}},
            {"secretRef": {"name": "refaug-cluster"}},
        ]
        assert "/dev/shm" in [mount["mountPath"] for mount in container["volumeMounts"]]
    for variable in container.get("env", ()):
        assert variable["name"] in KNOWN
        assert ("valueFrom" in variable) == (variable["name"] in SECRET)


def test_services_budgets_and_claims_belong_to_pods():
    objects = {named(found): found for _, found in OBJECTS}
    pods = [found["spec"]["template"]["metadata"]["labels"] for _, found in WORKLOADS]
    selectors = [
        found["spec"]["selector"].get("matchLabels", found["spec"]["selector"])
        for _, found in OBJECTS
        if found["kind"] in ("Service", "PodDisruptionBudget", "Deployment", "StatefulSet")
    ]
    assert len(selectors) == 10
    assert all(sum(selector.items() <= labels.items() for labels in pods) == 1 for selector in selectors)
    assert {name for name in objects if name.startswith("PodDisruptionBudget/")} == {
        "PodDisruptionBudget/refaug-worker",
        "PodDisruptionBudget/refaug-service",
    }
    claimed = {
        volume["persistentVolumeClaim"]["claimName"]
        for _, found in WORKLOADS
        for volume in found["spec"]["template"]["spec"].get("volumes", [])
        if "persistentVolumeClaim" in volume
    }
    assert claimed == {"refaug-data"}
    assert "PersistentVolumeClaim/refaug-data" in objects
    copies = objects["StatefulSet/refaug-worker"]["spec"]
    settings = objects["ConfigMap/refaug-cluster"]["data"]
    assert settings.keys() <= KNOWN - SECRET
    assert settings["RAY_AUTH_MODE"] == "token"
    mounts = {
        mount["name"]: mount["mountPath"] for mount in copies["template"]["spec"]["containers"][0]["volumeMounts"]
    }
    assert mounts["copies"] == settings[VARIABLE]
    assert [claim["metadata"]["name"] for claim in copies["volumeClaimTemplates"]] == ["copies"]


def test_addresses_and_ports_are_those_of_the_services():
    ports = {
        found["metadata"]["name"]: {port["port"] for port in found["spec"]["ports"]}
        for _, found in OBJECTS
        if found["kind"] == "Service"
    }
    text = "".join(path.read_text("utf-8") for path in MANIFESTS)
    asked = set(re.findall(r"\b(refaug-[a-z]+):(\d+)", text))
    assert asked == {("refaug-head", "6379"), ("refaug-redis", "6379")}
    assert all(int(port) in ports[name] for name, port in asked)
    asked = set(re.findall(r"[=\" ]([a-z]+):(\d{4})\b", (ROOT / "compose.cluster.yaml").read_text("utf-8")))
    assert asked == {("head", "6379"), ("redis", "6379")}
    assert "EXPOSE 8000" in DOCKERFILE
    assert ServeSettings().port == 8000
    assert SERVICES["service"]["ports"] == ["127.0.0.1:8000:8000"]


def test_probes_ask_routes_of_the_service():
    (service,) = [found for _, found in WORKLOADS if found["metadata"]["name"] == "refaug-service"]
    (container,) = service["spec"]["template"]["spec"]["containers"]
    paths = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
    assert paths == {"startupProbe": "/healthz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"}
    assert service["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] > ServeSettings().shutdown_s
    assert "http://127.0.0.1:8000/readyz" in " ".join(SERVICES["service"]["healthcheck"]["test"])


def test_the_compose_file_has_known_keys_volumes_and_no_secrets():
    assert set(COMPOSE) == {"x-refaug", "x-worker", "services", "volumes"}
    assert set(SERVICES) == {"redis", "head", "worker-1", "worker-2", "service", "store"}
    home = re.search(r"REFAUG_HOME=(\S+)", DOCKERFILE)[1].rstrip(" \\")
    for name, service in SERVICES.items():
        assert set(service) <= SERVICE_KEYS, name
        assert set(service.get("healthcheck", {})) <= HEALTH_KEYS
        mounted = dict(volume.split(":") for volume in service["volumes"] if ":" in volume)
        assert mounted.keys() <= COMPOSE["volumes"].keys()
        for other, condition in service.get("depends_on", {}).items():
            healthy = condition["condition"] == "service_healthy"
            assert ("healthcheck" in SERVICES[other]) == healthy
        environment = service.get("environment", {})
        assert environment.keys() <= KNOWN
        for secret in SECRET & environment.keys():
            assert re.fullmatch(r"\$\{" + secret + r":\?[^}]+\}", environment[secret])
        if name in ("head", "worker-1", "worker-2", "service"):
            assert environment["RAY_AUTH_MODE"] == "token"
            assert mounted["refaug-data"] == home
            assert mounted["refaug-store"] == environment["REFAUG_STORE"]
    prepared = SERVICES["store"]
    owner = re.search(r"^USER (\d+):(\d+)", DOCKERFILE, re.MULTILINE)
    assert prepared["entrypoint"][2:] == [f"--owner={owner[1]}", f"--group={owner[2]}"]
    assert sorted(volume.partition(":")[2] for volume in prepared["volumes"]) == sorted(prepared["command"])
