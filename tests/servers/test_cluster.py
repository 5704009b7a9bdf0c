"""Clusters on this machine: every node has its ports, its part of the limits and the same secrets,
and all of them end together."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import tiny_server
from busy_machine import missed_by_sampler, until
from ended import all_ended

from vectrial.analysis.run_data import load
from vectrial.compare.groups import terms_of
from vectrial.model.errors import Unsupported, UserError
from vectrial.model.faults import Fault
from vectrial.model.placement import Hosts, Limits
from vectrial.model.store import Address
from vectrial.report.build import build
from vectrial.servers import cluster, provide
from vectrial.servers.base import Cluster, Clustering, Command, Node, Recipe, ServerError
from vectrial.servers.cluster import LocalCluster
from vectrial.servers.hosts import why_no_hosts
from vectrial.servers.namespaces import Network
from vectrial.servers.server_network import ServerNetwork
from vectrial.stores.lucene.server import ELASTICSEARCH
from vectrial.stores.milvus.server import MILVUS
from vectrial.stores.weaviate.server import WEAVIATE
from vectrial.testing.server_programs import program, require_startable

#: Three nodes on hosts, of which one stands still and is cut off.
LOSS = """
name = "loss"
repeats = 1
[hosts]
link_mbit = 1000
[[datasets]]
name = "clustered-16-2k"
queries = 100
[[stores]]
store = "weaviate"
params = { replication_factor = 3, write_consistency = "quorum" }
nodes = 3
[[experiments]]
experiment = "node_loss"
faults = ["pause", "cut"]
rates = { search = 60, insert = 10, delete = 5 }
before_s = 6
lost_s = 8
after_s = 4
settle_s = 3
timeout_s = 2
search = { ef_search = 64, consistency = "one" }
[[experiments]]
experiment = "durability"
outages = ["node_kill", "kill"]
count = 1
rows = 200
window_s = 1
"""

#: What its phases say that is no term of a comparison.
SETTINGS = {"node", "second", "ef_search", "consistency"}


def tiny(
    *options: str,
    joins: str = "",
    adjacent: tuple[tuple[str, str], ...] = (),
    services: tuple[str, ...] = (),
) -> Recipe:
    """Tiny servers, each of which writes down what it was told of its cluster."""
    alone = tiny_server.recipe(*options, exposed="--everywhere" in options)

    def command(program: Path, folder: Path, node: Node, cluster: Cluster) -> Command:
        broken = ("--breaks",) if "--breaks-last" in options and node == cluster.nodes[-1] else ()
        at = () if "--everywhere" in options else ("--at", node.host)
        told = [node.name, [one.name for one in cluster.nodes], cluster.secrets]
        told += [sorted(cluster.services)]
        first = ("/bin/sh", "-c", f"echo '{json.dumps(told)}' > {folder}/me")
        own = alone.command(program, folder, node.ports, cluster.secrets)
        return replace(own, argv=(*own.argv, *at, *broken), first=first)

    how = Clustering(command, services, adjacent, joins)
    return replace(alone, generated=("api_key",), cluster=how)


def processes(server: LocalCluster) -> list[psutil.Process]:
    """The nodes' programs that are there, and what those started."""
    ids = filter(psutil.pid_exists, server.processes().values())
    programs = map(psutil.Process, ids)
    return [one for program in programs for one in (program, *program.children(recursive=True))]


def test_nodes_know_one_another_and_share_their_secrets(tmp_path: Path) -> None:
    with LocalCluster(tiny(joins="http"), 3, tmp_path) as server:
        assert list(server.processes()) == ["node-1", "node-2", "node-3"]
        told = [json.loads((folder / "me").read_text()) for folder in server.data_dirs()]
        assert [name for name, *_ in told] == ["node-1", "node-2", "node-3"]
        assert all(names == ["node-1", "node-2", "node-3"] for _, names, *_ in told)
        (secret,) = {one["api_key"] for *_, one, _ in told}
        address = server.address
        assert [tiny_server.starts(node) for node in address.nodes] == [1, 1, 1]
        assert len({node.ports["http"] for node in address.nodes}) == 3
        assert address.secrets == {"api_key": secret}
        assert (address.host, address.ports) == (address.nodes[0].host, address.nodes[0].ports)
        running = processes(server)
    assert all_ended(running, 0.0)
    assert not server.is_alive()


def test_a_restart_keeps_ports_data_and_secrets(tmp_path: Path) -> None:
    with LocalCluster(tiny(), 2, tmp_path) as server:
        before = server.address
        server.restart()
        assert server.address == before
        assert [tiny_server.starts(node) for node in before.nodes] == [2, 2]


def test_pairs_of_ports_are_adjacent(tmp_path: Path) -> None:
    with LocalCluster(tiny(adjacent=(("http", "other"),)), 2, tmp_path) as server:
        assert all(member.ports["other"] == member.ports["http"] + 1 for member in server.members)


def test_nodes_that_listen_everywhere_share_a_network_of_their_own(tmp_path: Path) -> None:
    with LocalCluster(tiny("--everywhere"), 2, tmp_path) as server:
        assert [tiny_server.starts(node) for node in server.address.nodes] == [1, 1]
        assert server.facts()["network"] == "its own"
        server.restart()
        assert [tiny_server.starts(node) for node in server.address.nodes] == [2, 2]


def test_without_one_of_its_nodes_it_does_not_live(tmp_path: Path) -> None:
    with LocalCluster(tiny(), 2, tmp_path) as server:
        _, second = server.processes().values()
        psutil.Process(second).kill()
        assert all_ended([psutil.Process(second)] if psutil.pid_exists(second) else [])
        assert not server.is_alive()
        assert server.is_answering(), "the other one"


def test_a_node_that_does_not_start_leaves_none_behind(tmp_path: Path) -> None:
    server = LocalCluster(tiny("--breaks-last"), 2, tmp_path, log=tmp_path / "log.txt")
    with pytest.raises(ServerError, match=r"(?s)ended .*the configuration is wrong"), server:
        pytest.fail("it was started all the same")
    assert not server.processes()
    assert "the configuration is wrong" in (tmp_path / "log-node-2.txt").read_text()


def test_each_node_has_its_part_of_the_limits(tmp_path: Path) -> None:
    with LocalCluster(tiny(), 2, tmp_path, limits=Limits(1.0, 512 << 20)) as server:
        limits = str(server.facts()["limits"])
        assert limits.startswith("0.5 processors, 256 MiB: ")
        assert server.facts()["nodes"] == 2


def test_services_are_there_before_the_nodes_and_end_after_them(tmp_path: Path) -> None:
    with LocalCluster(tiny(services=("tiny_server:service",)), 2, tmp_path) as server:
        assert list(server.processes()) == ["node-1", "node-2", "service"]
        told = json.loads((server.data_dirs()[0] / "me").read_text())
        assert told[-1] == ["service"]
        assert server.facts()["services"] == ["service"]
        assert (tmp_path / "services" / "service" / "data") in server.data_dirs()
        running = processes(server)
        psutil.Process(server.processes()["service"]).kill()
        assert all_ended(running[-1:])
        assert not server.is_alive(), "its nodes need the service"
    assert all_ended(running)


@pytest.fixture
def on_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Two tiny servers on hosts of their own."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tiny_server.__file__).parent))
    if why := why_no_hosts():
        pytest.skip(why)
    with Network() as network:
        inside = ServerNetwork(network, "tiny_server:LITTLE")
        hosts = Hosts(link_mbit=200)
        with LocalCluster(tiny(), 2, tmp_path, server_network=inside, hosts=hosts) as server:
            yield server


def reacts(server: LocalCluster, node: int) -> bool:
    """True if the node answers somebody in the network that joins the hosts."""
    network = server._server_network
    return network is not None and network.is_answering(server.address.nodes[node])


def test_a_node_on_a_host_is_cut_off_and_joined_again(on_hosts: LocalCluster) -> None:
    first, second = on_hosts.address.nodes
    assert (first.host, second.host) == ("127.18.1.1", "127.18.1.2")
    assert first.ports == second.ports
    assert on_hosts.facts()["hosts"] == "simulated hosts on one machine"
    assert on_hosts.strike(1, Fault.CUT) == "node-2"
    assert until(lambda: reacts(on_hosts, 0))
    assert not reacts(on_hosts, 1)
    assert on_hosts.is_alive(), "the node was lost on purpose"
    on_hosts.mend(1, Fault.CUT)
    assert until(lambda: reacts(on_hosts, 1))


def test_a_node_is_killed_and_started_again_or_stands_still(on_hosts: LocalCluster) -> None:
    before = on_hosts.processes()
    on_hosts.strike(1, Fault.KILL)
    assert not reacts(on_hosts, 1)
    assert on_hosts.is_alive()
    on_hosts.mend(1, Fault.KILL)
    on_hosts.wait_ready()
    after = on_hosts.processes()
    assert before["node-1"] == after["node-1"]
    assert before["node-2"] != after["node-2"]
    on_hosts.strike(0, Fault.PAUSE)
    first = processes(on_hosts)[:2]
    assert until(lambda: psutil.STATUS_STOPPED in [one.status() for one in first])
    assert not reacts(on_hosts, 0)
    on_hosts.mend(0, Fault.PAUSE)
    assert until(lambda: reacts(on_hosts, 0))
    on_hosts.strike(0, Fault.PAUSE)  # and it is ended as it stands


def test_a_fault_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with LocalCluster(tiny(), 2, tmp_path) as server:
        with pytest.raises(Unsupported, match="there is none of number 2"):
            server.strike(2, Fault.KILL)
        with pytest.raises(Unsupported, match="its nodes share a network"):
            server.strike(0, Fault.CUT)


def test_hosts_need_a_network_that_joins_them(tmp_path: Path) -> None:
    server = LocalCluster(tiny(), 1, tmp_path, hosts=Hosts())
    with pytest.raises(UserError, match=r"no hosts can be made.*leave \[hosts\] out"):
        server.start()


@pytest.mark.parametrize(
    ("recipe", "nodes", "says"),
    [
        (tiny_server.recipe(), 2, "little runs as one node here"),
        (tiny(), 0, "0 nodes are no cluster"),
        (tiny(), 65, "65 nodes are no cluster"),
    ],
)
def test_what_forms_no_cluster_is_refused(recipe: Recipe, nodes: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        cluster.clustering(recipe, nodes)


def test_an_address_lists_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "a:http=80,grpc=81; b:http=90,grpc=91"
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", listed)
    address = provide.external_address(WEAVIATE)
    assert address is not None
    assert [(node.host, node.ports["grpc"]) for node in address.nodes] == [("a", 81), ("b", 91)]
    assert (address.host, address.ports["http"]) == ("a", 80)
    monkeypatch.setenv("VECTRIAL_WEAVIATE_ADDRESS", f"{listed};c:http=1")
    with pytest.raises(UserError, match="'c:http=1' is no address"):
        provide.external_address(WEAVIATE)


def asked(node: Address, path: str, key: str | None = None) -> object:
    """The JSON that a node answers."""
    url = f"http://{node.host}:{node.ports['http']}{path}"
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=30) as answer:
        return json.load(answer)


@pytest.mark.server("weaviate")
def test_weaviate_nodes_replicate_and_outlive_one_of_them(tmp_path: Path) -> None:
    require_startable(WEAVIATE)
    import weaviate
    from weaviate.classes.config import Configure, ConsistencyLevel
    from weaviate.classes.init import AdditionalConfig, Timeout
    from weaviate.classes.query import Filter

    patient = AdditionalConfig(timeout=Timeout(init=60, query=60, insert=90))

    def client(node: Address) -> weaviate.WeaviateClient:
        return weaviate.connect_to_local(
            node.host,
            port=node.ports["http"],
            grpc_port=node.ports["grpc"],
            auth_credentials=weaviate.auth.AuthApiKey(node.secrets["api_key"]),
            additional_config=patient,
        )

    with LocalCluster(WEAVIATE, 3, tmp_path) as server:
        first, _, third = server.address.nodes
        with client(first) as one, client(third) as another:
            made = one.collections.create(
                "Some",
                replication_config=Configure.replication(factor=3),
                vector_config=Configure.Vectors.self_provided(),
            )
            everywhere = made.with_consistency_level(ConsistencyLevel.ALL)
            for number in range(20):
                everywhere.data.insert({"number": number}, vector=[float(number), 1.0])
            there = another.collections.get("Some")
            assert there.aggregate.over_all(total_count=True).total_count == 20
            psutil.Process(server.processes()["node-2"]).kill()
            three = Filter.by_property("number").equal(3)
            assert len(there.query.fetch_objects(filters=three).objects) == 1
        running = processes(server)
    assert all_ended(running)


@pytest.mark.server("milvus")
@pytest.mark.slow
def test_a_milvus_cluster_spreads_its_roles(tmp_path: Path) -> None:
    require_startable(MILVUS, nodes=2)
    from pymilvus import MilvusClient

    with LocalCluster(MILVUS, 2, tmp_path) as server:
        assert list(server.processes()) == ["node-1", "node-2", "etcd", "kafka", "minio"]
        first, second = (f"http://127.0.0.1:{node.ports['grpc']}" for node in server.address.nodes)
        one, another = MilvusClient(first), MilvusClient(second)
        one.create_collection("some", dimension=4, num_shards=2)
        one.insert("some", [{"id": at, "vector": [float(at), 1, 1, 1]} for at in range(20)])
        one.load_collection("some", replica_number=1)
        rows = another.query("some", filter="id >= 0", consistency_level="Strong")
        assert len(rows) == 20, "what one proxy took, another one finds"
        running = processes(server)
    assert all_ended(running)


@pytest.mark.server("weaviate")
@pytest.mark.slow
def test_a_node_is_lost_under_load(tmp_path: Path) -> None:
    """The whole way: a suite, hosts, the fault, and what the nodes have in the end."""
    require_startable(WEAVIATE)
    if why := why_no_hosts():
        pytest.skip(why)
    suite = tmp_path / "suite.toml"
    suite.write_text(LOSS)
    command = ("run", str(suite), "--out", str(tmp_path / "runs"), "--no-report")
    done = subprocess.run(
        [sys.executable, "-m", "vectrial.cli.main", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "runs" / "latest")
    assert {trial.status for trial in run.trials} == {"ok"}
    gate = {check.name: check.passed for trial in run.trials for check in trial.gate}
    assert gate["nodes_agree"] is True
    losses = {point.params["fault"]: point for point in run.select("node_loss", "loss")}
    assert set(losses) == {"pause", "cut"}
    for loss in losses.values():
        assert loss.params["node"] == "node-3"
        assert (loss.value("recall_before") or 0) > 0.9
        assert loss.value("noticed_s") is not None, "requests to the node were not answered"
    outages = {point.params["outage"]: point for point in run.select("durability", "outages")}
    assert outages.keys() == {"node_kill", "kill"}
    for one in outages.values():
        assert (one.value("acknowledged_rows") or 0) > 0
        assert one.value("unanswered") == 0
    told = {key for point in run.select("node_loss") for key in point.params}
    assert told <= {*terms_of("node_loss"), *SETTINGS}, "declare it as a term, or as a setting here"
    (search,) = [p for p in run.select("node_loss", "search") if p.params["fault"] == "cut"]
    if (sent := search.value("server_link_bytes")) is None:  # the machine was too busy to say
        assert missed_by_sampler(search.why_missing("server_cpu_s"))
    else:
        assert sent > 0
    assert any(len(used) == 3 for used in run.processes.values()), "each node's processor time"
    assert "The loss of a node" in [section.title for section in build(run).sections]


@pytest.mark.server("elasticsearch")
@pytest.mark.slow
def test_elasticsearch_nodes_spread_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_startable(ELASTICSEARCH)
    from elasticsearch import Elasticsearch

    monkeypatch.setenv("VECTRIAL_ELASTICSEARCH_HEAP", "512m")
    with LocalCluster(ELASTICSEARCH, 2, tmp_path) as server:
        urls = [f"http://{node.host}:{node.ports['http']}" for node in server.address.nodes]
        with Elasticsearch(urls, request_timeout=60) as client:
            client.indices.create(
                index="some", settings={"number_of_shards": 2, "number_of_replicas": 1}
            )
            health = client.cluster.health(wait_for_status="green", timeout="60s")
            assert (health["number_of_nodes"], health["active_shards"]) == (2, 4)
            client.index(index="some", document={"number": 1}, refresh=True)
            assert client.options().count(index="some")["count"] == 1


@pytest.mark.server("weaviate")
def test_up_shows_the_nodes_of_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`vectrial up --detach --nodes` to its end by `vectrial down`."""
    monkeypatch.setenv("VECTRIAL_WEAVIATE_BIN", str(program(WEAVIATE)))
    monkeypatch.setenv("VECTRIAL_HOME", str(tmp_path))

    def vectrial(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "vectrial.cli.main", *words],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    try:
        shown = vectrial("up", "weaviate", "--nodes", "2", "--detach")
        lines = [line.split() for line in shown.splitlines()]
        heads, *nodes = [line for line in lines if line and line[0].startswith("node")]
        assert heads == ["node", "http", "grpc", "log"]
        assert [name for name, *_ in nodes] == ["node-1", "node-2"]
        (export,) = [line for line in shown.splitlines() if "WEAVIATE_ADDRESS" in line]
        assert export.count("127.0.0.1:http=") == 2
        (listed,) = [json.loads(line) for line in vectrial("up", "--format", "jsonl").splitlines()]
        assert [node["name"] for node in listed["nodes"]] == ["node-1", "node-2"]
    finally:
        vectrial("down", "weaviate")
