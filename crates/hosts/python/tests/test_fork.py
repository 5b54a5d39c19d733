"""Forks of a process that has connected."""

import subprocess
import sys
import textwrap


def test_a_fork_is_told_to_connect_by_itself(cluster, keyspaces, key):
    program = f"""
        import gc, os, quorate
        db = quorate.connect("{cluster.address}")
        keyspace = db.keyspace("of-strict")
        txn = keyspace.begin()
        txn.put("{key}", "parent")
        child = os.fork()
        if child == 0:
            for use in (lambda: keyspace.get("a"), lambda: txn.put("a", "1"), db.list, txn.commit, lambda: txn.token):
                try:
                    use()
                except quorate.Forked as forked:
                    assert str(os.getppid()) in str(forked) and not forked.may_have_happened
                else:
                    raise AssertionError("it was used in a fork")
            del txn, keyspace, db
            gc.collect()
            with quorate.connect("{cluster.address}") as db:
                db.keyspace("of-strict").put("{key}/child", "child")
        else:
            assert os.waitpid(child, 0)[1] == 0
            txn.commit()
            assert keyspace.get_many(["{key}", "{key}/child"]) == [b"parent", b"child"]
            db.close()
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
