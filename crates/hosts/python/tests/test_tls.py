"""A cluster whose nodes have certificates."""

import pathlib
import ssl
import tempfile
import urllib.request

import pytest
import quorate
import quorate.aio
from conftest import Cluster, free_ports


@pytest.fixture(scope="module")
def secured():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        door = f"127.0.0.1:{free_ports(4)}"
        cluster = Cluster(folder / "data", "--tls", str(folder / "certificates"), "--http", door)
        cluster.certificates, cluster.door = folder / "certificates", door
        try:
            yield cluster
        finally:
            cluster.stop()


def files(folder, stem="user-admin"):
    return {"ca": folder / "ca.crt", "certificate": folder / f"{stem}.crt", "key": folder / f"{stem}.key"}


def test_a_user_with_a_certificate_is_served(secured):
    with quorate.connect(secured.address, **files(secured.certificates)) as db:
        keyspace = db.create_keyspace("accounts", "strict", durability="memory")
        keyspace.put("alice", b"100")
        assert keyspace.get("alice") == b"100"


@pytest.mark.asyncio
async def test_so_is_one_that_waits_for_events(secured):
    async with quorate.aio.connect(secured.address, **files(secured.certificates)) as db:
        assert isinstance(await db.list(), list)


def test_a_client_in_plain_text_is_told_that_the_cluster_speaks_tls(secured):
    with pytest.raises(quorate.Error, match="speaks TLS only"):
        quorate.connect(secured.address)


def test_the_certificate_of_a_node_is_none_of_a_user(secured):
    with pytest.raises(quorate.Error, match="needs the certificate of a user"):
        quorate.connect(secured.address, **files(secured.certificates, "node-0"))


def test_a_file_that_is_missing_and_one_that_is_left_out_are_named(secured):
    with pytest.raises(quorate.Error, match="nobody.crt cannot be read"):
        quorate.connect(secured.address, **files(secured.certificates, "nobody"))
    with pytest.raises(quorate.Error, match="ca, certificate and key"):
        quorate.connect(secured.address, ca=secured.certificates / "ca.crt")


def test_the_door_for_http_speaks_tls(secured):
    context = ssl.create_default_context(cafile=str(secured.certificates / "ca.crt"))
    with urllib.request.urlopen(f"https://{secured.door}/v1/keyspaces", context=context, timeout=30) as answer:
        assert answer.status == 200
    with pytest.raises(OSError):
        urllib.request.urlopen(f"https://{secured.door}/v1/keyspaces", timeout=30)
