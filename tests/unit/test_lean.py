"""The stand-ins for typing and dataclasses."""

import pickle
import subprocess
import sys
import typing

import pytest

from collector import lean
from collector.config.fields import Duration


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


def test_suppress_ends_the_block_at_its_kinds_only() -> None:
    """As contextlib's: a subclass counts, another kind goes on, no exception is no matter."""
    with lean.suppress(OSError, ValueError):
        raise FileNotFoundError
    with lean.suppress(OSError):
        pass
    with pytest.raises(KeyError), lean.suppress(OSError, ValueError):
        raise KeyError


def test_the_start_path_loads_none_of_what_it_stands_in_for() -> None:
    """A collector that is about to serve has neither typing nor dataclasses nor inspect."""
    program = (
        "import sys\n"
        "import collector.cli.run, collector.service.run, collector.receivers.otlp, collector.exporters.otlp_grpc\n"
        "import collector.processors.batch, collector.processors.probabilistic_sampler\n"
        "import collector.processors.memory_limiter, collector.extensions.health_check\n"
        "print(sorted({'typing', 'dataclasses', 'inspect', 'ast', 'click', 'logging', 'traceback'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "[]" == result.stdout.strip()
