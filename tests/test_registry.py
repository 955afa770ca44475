"""Registry: types, names, origins, duplicates, and all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pytest

from schemegen.errors import DuplicateNameError, PluginError, UnknownNameError
from schemegen.registry import Registry


@dataclass(frozen=True)
class Spice:
    """What the tests register."""

    name: str


@pytest.fixture
def spices() -> Registry[Spice]:
    registry = Registry("spice", Spice)
    registry.add(Spice("pepper"), origin="schemegen")
    registry.add(Spice("cumin"), origin="acme-spices 1.2")
    return registry


def test_names_are_sorted_and_so_is_iteration(spices: Registry[Spice]) -> None:
    assert spices.names() == ["cumin", "pepper"]
    assert list(spices) == [Spice("cumin"), Spice("pepper")]
    assert len(spices) == 2


def test_contains_and_get(spices: Registry[Spice]) -> None:
    assert "cumin" in spices
    assert "salt" not in spices
    assert spices.get("cumin") == Spice("cumin")


def test_origin_is_the_registrant(spices: Registry[Spice]) -> None:
    assert spices.origin("cumin") == "acme-spices 1.2"
    assert spices.origin("pepper") == "schemegen"
    with pytest.raises(UnknownNameError, match="unknown spice 'salt'"):
        spices.origin("salt")


def test_unknown_name_suggests_and_carries_notes(spices: Registry[Spice]) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown spice 'peper'.*pepper.*plugin x is broken") as caught:
        spices.get("peper", notes=["plugin x is broken"])
    assert caught.value.suggestions == ["pepper"]


def test_duplicate_names_both_origins(spices: Registry[Spice]) -> None:
    with pytest.raises(DuplicateNameError, match=r"'cumin'.*acme-spices 1\.2.*other 3") as caught:
        spices.add(Spice("cumin"), origin="other 3")
    assert caught.value.origins == ("acme-spices 1.2", "other 3")
    assert spices.origin("cumin") == "acme-spices 1.2"


@pytest.mark.parametrize(
    ("obj", "words"),
    [("salt", "a spice must be a Spice, not str 'salt'"), (Spice, "not the class Spice"), (None, "not NoneType")],
)
def test_wrong_type_is_refused(spices: Registry[Spice], obj: object, words: str) -> None:
    with pytest.raises(PluginError, match=words):
        spices.add(obj, origin="acme 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "Salt", "-salt", ".salt", "sea salt", "sel/gris", "salt\n", "sél", 7])
def test_bad_names_are_refused(spices: Registry[Spice], name: object) -> None:
    with pytest.raises(PluginError, match="cannot name a spice; use lower-case"):
        spices.add(Spice(name), origin="acme 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a", "0", "kimi-k2-int4", "w4a16.v2", "fp8_block"])
def test_good_names_are_taken(spices: Registry[Spice], name: str) -> None:
    spices.add(Spice(name), origin="acme 1")
    assert name in spices


def test_a_refused_batch_leaves_nothing_behind(spices: Registry[Spice]) -> None:
    with pytest.raises(DuplicateNameError):
        spices.add_all([Spice("salt"), Spice("cumin")], origin="acme 1")
    with pytest.raises(DuplicateNameError):
        spices.add_all([Spice("salt"), Spice("salt")], origin="acme 1")
    assert spices.names() == ["cumin", "pepper"]


def test_a_batch_that_raises_leaves_nothing_behind(spices: Registry[Spice]) -> None:
    def half() -> Iterator[Spice]:
        yield Spice("salt")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        spices.add_all(half(), origin="acme 1")
    assert "salt" not in spices


def test_names_that_were_added_are_told(spices: Registry[Spice]) -> None:
    assert spices.add_all([Spice("salt"), Spice("anise")], origin="acme 1") == ("salt", "anise")
    assert spices.add_all([], origin="acme 1") == ()


def test_an_object_may_be_held_to_more_and_to_those_that_are_there() -> None:
    def fault(spice: Spice, others: Iterable[Spice]) -> str | None:
        return "is as long as another" if len(spice.name) in {len(other.name) for other in others} else None

    registry = Registry("spice", Spice, fault)
    registry.add(Spice("salt"), origin="acme 1")
    with pytest.raises(PluginError, match=r"acme 1: spice mace: is as long as another"):
        registry.add_all([Spice("cumin"), Spice("mace")], origin="acme 1")
    with pytest.raises(DuplicateNameError):
        registry.add(Spice("salt"), origin="other 1")
    assert registry.names() == ["salt"]


class Mute:
    """Nothing can be told of it."""

    def __repr__(self) -> str:
        raise ValueError


def test_what_is_told_of_a_wrong_object_is_one_plain_line(spices: Registry[Spice]) -> None:
    for obj, told in ((Mute(), "not Mute"), ("\x1b[31m\n", r"not str '\\x1b\[31m\\n'")):
        with pytest.raises(PluginError, match=told):
            spices.add(obj, origin="acme 1")  # type: ignore[arg-type]
