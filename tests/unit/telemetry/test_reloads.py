"""How reloads went."""

from collector.telemetry.reloads import Reloads


def test_the_last_reload_is_told() -> None:
    """Whether it succeeded, and when the last one did; the start is the first."""
    now = iter([1000.5, 2000.0])
    reloads = Reloads(lambda: next(now))

    def told() -> list[float]:
        return [sample.value for sample in reloads.samples()]

    assert [1, 1000.5] == told()
    reloads.note(is_successful=False)
    assert [0, 1000.5] == told()
    reloads.note(is_successful=True)
    assert [1, 2000.0] == told()
