"""Procedures: deployed as WebAssembly, and called."""

import pytest
import quorate


def section(number, body):
    return bytes([number, len(body)]) + body


def module(refuses):
    """A module that answers ``hello``, and is done or refuses."""

    def name(text):
        return bytes([len(text)]) + text.encode()

    return b"".join(
        [
            b"\0asm\1\0\0\0",
            # (i32, i32), and (i32) -> i32
            section(1, b"\2\x60\2\x7f\x7f\0\x60\1\x7f\1\x7f"),
            section(2, b"\1" + name("quorate_1") + name("answer") + b"\0\0"),
            section(3, b"\1\1"),
            section(5, b"\1\0\1"),
            section(7, b"\2" + name("memory") + b"\2\0" + name("call") + b"\0\1"),
            # answer(0, 5); refuses
            section(10, b"\1\x0a\0\x41\0\x41\5\x10\0\x41" + bytes([refuses]) + b"\x0b"),
            section(11, b"\1\0\x41\0\x0b\5hello"),
        ]
    )


def test_a_procedure_is_deployed_called_and_removed(serializable, key):
    deployed = serializable.deploy("greet", module(refuses=0))
    assert (deployed.name, deployed.version, deployed.stage) == ("greet", 1, "deployed")
    for more in (
        {},
        {"keys": [key]},
        {"at": [key]},
        {"at": {key: "other", "b": None}},
        {"read_only": True, "version": 1},
    ):
        called = serializable.call("greet", "arguments", **more)
        assert called.answers == [b"hello"]
        assert called.receipt.token
    assert [known.name for known in serializable.procedures()] == ["greet"]
    serializable.remove("greet", 1)
    with pytest.raises(quorate.Refused) as raised:
        serializable.call("greet")
    assert raised.value.reason is None and not raised.value.may_have_happened


def test_a_refusal_tells_the_reason_of_the_procedure(serializable):
    serializable.deploy("refuse", module(refuses=1))
    with pytest.raises(quorate.Refused) as raised:
        serializable.call("refuse")
    assert raised.value.reason == b"hello"
    serializable.remove("refuse", 1)


def test_bytes_that_are_no_module_are_refused(serializable, strict):
    with pytest.raises(quorate.Refused):
        serializable.deploy("broken", b"nonsense")
    with pytest.raises(quorate.Invalid, match="serializable"):
        strict.deploy("greet", module(refuses=0))
    for wrong in ({"at": "abc"}, {"keys": "abc"}, {"ranges": ["abc"]}):
        with pytest.raises(TypeError):
            serializable.call("greet", **wrong)
