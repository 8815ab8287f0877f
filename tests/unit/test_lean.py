"""The stand-ins for typing, dataclasses, enum and others."""

import copy
import enum
import pickle
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

from collector import lean
from collector.config.fields import Duration
from collector.native import _spansieve

ROOT = Path(__file__).parents[2]


class RealPoint(typing.NamedTuple):
    """What it stands in for."""

    x: int
    y: int = 2


class Point(lean.NamedTuple):
    """A named tuple as the collector has them at run time."""

    x: int
    y: int = 2

    @property
    def sum(self) -> int:
        """A method keeps its place."""
        return self.x + self.y


@lean.record
class Base:
    """A record with a field of every kind."""

    needed: int
    shared: tuple[int, ...] = ()
    own: list[int] = lean.field(factory=list)
    wait: Duration | None = None


@lean.record
class Derived(Base):
    """A record that adds a field and changes one."""

    needed: int = 7
    extra: str = "e"


class TestNamedTuple:
    """What is used of typing.NamedTuple, against the real one."""

    @pytest.mark.parametrize(
        ("values", "named"), [((1, 5), {}), ((1,), {"y": 5}), ((), {"x": 1, "y": 5}), ((), {"y": 5, "x": 1})]
    )
    def test_is_made_as_the_real_one_is(self, values: tuple[int, ...], named: dict[str, int]) -> None:
        """Positions and names in every mixture give the same tuple."""
        point = Point(*values, **named)
        assert point == RealPoint(*values, **named)
        assert (point.x, point.y, point.sum, tuple(point)) == (1, 5, 6, (1, 5))

    def test_defaults_fill_what_is_not_given(self) -> None:
        """A default is used only where nothing is given."""
        assert Point(1) == (1, 2)

    @pytest.mark.parametrize(
        ("values", "named"), [((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})]
    )
    def test_wrong_arguments_are_refused(self, values: tuple[int, ...], named: dict[str, int]) -> None:
        """Missing, surplus, double and unknown ones."""
        with pytest.raises(TypeError, match="Point"):
            Point(*values, **named)

    def test_is_shown_changed_and_pickled(self) -> None:
        """repr, _replace, _asdict and pickle do as with the real one."""
        point = Point(1)
        assert f"Real{point!r}" == repr(RealPoint(1))
        assert point._replace(y=3) == (1, 3) and type(point._replace(y=3)) is Point
        assert {"x": 1, "y": 2} == point._asdict()
        assert pickle.loads(pickle.dumps(point)) == point


class TestRecord:
    """Frozen classes without generated code."""

    def test_fields_of_bases_come_first_and_can_be_changed(self) -> None:
        """Order of declaration, the nearest declaration wins."""
        assert ["needed", "shared", "own", "wait", "extra"] == [each.name for each in lean.fields(Derived)]
        assert 7 == Derived().needed

    def test_types_are_evaluated_where_they_were_written(self) -> None:
        """An annotation may use names of its own module only."""
        types = {each.name: each.type for each in lean.fields(Base)}
        assert types == {"needed": int, "shared": tuple[int, ...], "own": list[int], "wait": Duration | None}

    def test_a_factory_makes_each_default_anew(self) -> None:
        """Mutable defaults are not shared."""
        assert Base(needed=1).own is not Base(needed=1).own

    def test_wrong_arguments_are_refused(self) -> None:
        """A missing and an unknown field by name."""
        with pytest.raises(TypeError, match="Base needs needed"):
            Base()
        with pytest.raises(TypeError, match="Base has no other"):
            Base(needed=1, other=2)

    def test_does_not_change(self) -> None:
        """Neither assignment nor deletion; replace makes another."""
        base = Base(needed=1)
        with pytest.raises(AttributeError):
            base.needed = 2
        with pytest.raises(AttributeError):
            del base.needed
        assert lean.replace(base, needed=2) == Base(needed=2) != base


class TestEnums:
    """Ours beside those of enum."""

    @pytest.fixture(params=[lean, enum], ids=["ours", "theirs"])
    def kinds(self, request: pytest.FixtureRequest) -> Any:
        kinds = request.param

        class Plain(kinds.Enum):
            A = "a"
            B = "b"

            @property
            def shout(self) -> str:
                return self.value.upper()

        class Text(kinds.StrEnum):
            A = "a"
            B = "b"

        class Number(kinds.IntEnum):
            ONE = 1
            TWO = 2

        return Plain, Text, Number

    def test_members_are_found_by_name_and_value(self, kinds: Any) -> None:
        """Each is the same object, whichever way it is reached, and no other is made."""
        for kind in kinds:
            assert 2 == len(kind) == len(list(kind))
            for name, member in kind.__members__.items():
                assert member is getattr(kind, name) is kind(member.value) is kind(member)
                assert name == member.name
                assert member in kind
                assert isinstance(member, kind)
                assert member is copy.deepcopy(member)
            with pytest.raises(ValueError, match="'none' is not a valid "):
                kind("none")

    def test_members_are_what_their_kind_says(self, kinds: Any) -> None:
        """Texts are texts and numbers are numbers; those of neither kind are only equal to themselves."""
        plain, text, number = kinds
        assert ("A", "b") == (plain.A.shout, plain.B.value)
        assert plain.A != "a"
        assert repr(plain.A).endswith("Plain.A: 'a'>")
        assert ("a", "a", "a", "a b") == (str(text.A), f"{text.A}", text.A, " ".join(text))
        assert ({"a": 1}, 3, "2") == ({text.A: 1}, number.ONE + number.TWO, str(number.TWO))
        assert {plain.A: 1}[plain("a")] == 1

    def test_a_choice_of_texts_is_known(self, kinds: Any) -> None:
        """The decoder takes either, so that other packages may use enum's."""
        plain, text, number = kinds
        assert [False, True, False, False] == [lean.is_text_enum(each) for each in (plain, text, number, str)]


def test_suppress_ends_the_block_at_its_kinds_only() -> None:
    """As contextlib's: a subclass counts, another kind goes on, no exception is no matter."""
    with lean.suppress(OSError, ValueError):
        raise FileNotFoundError
    with lean.suppress(OSError):
        pass
    with pytest.raises(KeyError), lean.suppress(OSError, ValueError):
        raise KeyError


def test_the_start_path_loads_little_of_the_standard_library() -> None:
    """A sidecar that is about to serve has what Python itself begins with, and these few modules."""
    program = (
        f"import sys; sys.path[:0] = {[str(ROOT), *sys.path[1:]]!r}\n"
        f"import collector.native; collector.native.__path__.append({str(Path(_spansieve.__file__).parent)!r})\n"
        "import collector.service.run, collector.transport.native\n"
        "from collector.config.load import load\n"
        "from collector.registry import Registry\n"
        f"load([{str(ROOT / 'deploy' / 'config' / 'sidecar.yaml')!r}], (), Registry())\n"
    )
    # Without site: an editable installation looks for modules in Python, and imports much for that.
    before, after = (
        subprocess.run(
            [sys.executable, "-S", "-c", f"{text}import sys; print(*sys.modules)"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for text in ("import os\n", program)
    )
    ours = {name for name in after if name.partition(".")[0] == "collector"}
    known = {
        "__future__",
        "_cffi_backend",
        "_socket",
        "errno",
        "gc",
        "math",
        "select",
        "types",
        "weakref",
        "_weakrefset",
    }
    abc = {
        "collections",
        "collections.abc",
        "_collections",
        "itertools",
        "keyword",
        "operator",
        "_operator",
        "reprlib",
    }
    assert set(after) - set(before) - ours - known - abc == set()
