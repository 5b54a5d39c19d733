"""Counting sets, counters, containers, milestones and pipelined commits: ``parallel-snapshot`` keyspaces alone have them."""

import pytest
import quorate


def test_elements_of_sets_have_counts(parallel_snapshot, key):
    friends = f"{{{key}}}/friends"
    with parallel_snapshot.transaction() as txn:
        txn.set_add(friends, "bob")
        txn.set_add(friends, "bob")
        txn.set_add(friends, "carol")
        txn.set_remove(friends, "dave")
        assert txn.set_count(friends, "bob") == 2
        assert txn.set_insert(friends, "erin") and not txn.set_insert(friends, "erin")
        assert txn.set_discard(friends, "carol") and not txn.set_discard(friends, "carol")
    with parallel_snapshot.transaction() as txn:
        assert list(txn.set_iter(friends)) == [(b"bob", 2), (b"dave", -1), (b"erin", 1)]
        assert list(txn.set_iter(friends, limit=1, from_greatest=True)) == [(b"erin", 1)]
        assert [element for element, _ in txn.set_iter(friends, "c", "e")] == [b"dave"]
        assert txn.set_contains(friends, "bob") and not txn.set_contains(friends, "dave")


def test_sets_are_iterated_page_by_page(parallel_snapshot, key):
    large = f"{{{key}}}/large"
    with parallel_snapshot.transaction() as txn:
        for number in range(2_500):
            txn.set_add(large, f"{number:05}")
    with parallel_snapshot.transaction() as txn:
        elements = [int(element) for element, _ in txn.set_iter(large)]
        assert elements == list(range(2_500))
        backwards = [int(element) for element, _ in txn.set_iter(large, limit=2_200, from_greatest=True)]
        assert backwards == list(range(2_499, 299, -1))


def test_members_come_with_the_values_of_their_keys(parallel_snapshot, key):
    posts = f"{{{key}}}/posts"
    ids = [parallel_snapshot.container(key).new_id() for _ in range(3)]
    assert ids == sorted(ids)
    with parallel_snapshot.transaction() as txn:
        for number, post in enumerate(ids[:2]):
            txn.put(post, f"post {number}")
        for post in ids:
            txn.set_add(posts, post)
    with parallel_snapshot.transaction() as txn:
        members = list(txn.get_members(posts, from_greatest=True))
    assert [(member.element, member.count, member.value) for member in members] == [
        (ids[2], 1, None),
        (ids[1], 1, b"post 1"),
        (ids[0], 1, b"post 0"),
    ]


def test_counters_never_fall_below_zero(parallel_snapshot, key):
    stock = f"{{{key}}}/stock"
    with parallel_snapshot.transaction() as txn:
        txn.counter_add(stock, 3)
        assert txn.counter_get(stock) == 3
    with pytest.raises(quorate.BelowZero):
        with parallel_snapshot.transaction() as txn:
            txn.counter_add(stock, -4)
    with pytest.raises(OverflowError):
        with parallel_snapshot.transaction() as txn:
            txn.counter_add(stock, 2**40)


def test_containers_are_placed(parallel_snapshot, key):
    container = parallel_snapshot.container(key)
    assert container.tag == key.encode()
    container.place_at("site2")
    assert container.preferred_site() == "site2"
    assert sorted(container.replica_sites()) == ["site1", "site2", "site3"]
    with pytest.raises(quorate.Invalid):
        container.place_at("nowhere")
    with pytest.raises(quorate.Invalid, match="register or a set"):
        container.new_id("other")
    with pytest.raises(quorate.Invalid):
        parallel_snapshot.container("{}").new_id()
    container.destroy()


def test_a_receipt_tells_how_far_a_commit_has_come(parallel_snapshot, strict, key):
    receipt = parallel_snapshot.put(f"{{{key}}}/post", "hello")
    receipt.durable()
    receipt.visible()
    with parallel_snapshot.transaction() as txn:
        marked = txn.get_marked(f"{{{key}}}/post")
    assert (marked.value, marked.is_in_flight) == (b"hello", False)
    strict.put(key, "1").visible()


def test_commits_are_pipelined(db, parallel_snapshot, strict, key):
    post = parallel_snapshot.begin()
    post.put(f"{{{key}}}/post/1", "hello")
    post = post.commit_soon()
    with parallel_snapshot.transaction(after=post) as last:
        assert last.get(f"{{{key}}}/post/1") == b"hello"
        last.put(f"{{{key}}}/last", "1")
    assert post.receipt().token == post.token
    with pytest.raises(RuntimeError, match="asked for before"):
        post.receipt()
    parallel_snapshot.begin_after(post).abort()
    with pytest.raises(quorate.Invalid, match="strict"):
        strict.container(key).preferred_site()
    with pytest.raises(TypeError):
        parallel_snapshot.begin_after(last)


def test_other_isolations_have_no_sets(strict, key):
    with pytest.raises(quorate.Invalid, match="strict"):
        with strict.transaction() as txn:
            txn.set_add(key, "a")
