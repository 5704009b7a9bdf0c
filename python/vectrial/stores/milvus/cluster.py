"""Milvus as a cluster: the same program as standalone, with its roles spread over nodes.

Every node has a proxy, which clients call, and the three roles that do the work: query node, data
node and index node. The first one has the coordinators, too. Metadata is in etcd, the log in Kafka
and files in MinIO, which run beside the nodes.
"""

from __future__ import annotations

from dataclasses import replace

from vectrial.servers.base import Cluster, Command, Node

#: Services that the nodes need; see `vectrial.servers.base.Clustering`.
SERVICES = (
    "vectrial.servers.etcd:etcd",
    "vectrial.servers.kafka:kafka",
    "vectrial.servers.minio:minio",
)
#: The place in it where the servers keep their files and import from.
BUCKET = "milvus"
#: Roles of a process, as its flags name them.
_COORDINATORS = ("rootcoord", "querycoord", "datacoord", "indexcoord")
_WORKERS = ("proxy", "querynode", "datanode", "indexnode")


def node_command(standalone: Command, node: Node, cluster: Cluster) -> Command:
    """The command of a node, given the command of a stand-alone server."""
    addresses = {name: node.host for name in standalone.env if name.endswith("_IP")}
    if len(cluster.nodes) == 1:
        return replace(standalone, env={**standalone.env, **addresses})
    etcd, kafka, minio = (cluster.services[name] for name in ("etcd", "kafka", "minio"))
    first = node == cluster.nodes[0]
    roles = (*(_COORDINATORS if first else ()), *_WORKERS)
    (program, *_), alias = standalone.argv, f"vectrial-{node.name}-{node.ports['grpc']}"
    env = {
        **standalone.env,
        **addresses,
        "DEPLOY_MODE": "DISTRIBUTED",
        "ETCD_USE_EMBED": "false",
        "ETCD_ENDPOINTS": f"{etcd.host}:{etcd.ports['client']}",
        "COMMON_STORAGETYPE": "remote",
        "MINIO_ADDRESS": minio.host,
        "MINIO_PORT": str(minio.ports["s3"]),
        "MINIO_ACCESSKEYID": minio.secrets["user"],
        "MINIO_SECRETACCESSKEY": minio.secrets["password"],
        "MINIO_BUCKETNAME": BUCKET,
        "MQ_TYPE": "kafka",
        "KAFKA_BROKERLIST": f"{kafka.host}:{kafka.ports['broker']}",
    }
    argv = (program, "run", "mixture", *(f"-{role}=true" for role in roles), "-alias", alias)
    return Command(argv, env, standalone.first, standalone.needs)
