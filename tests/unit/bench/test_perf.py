from __future__ import annotations

from bench import perf

SCRIPT = """\
spansieve  100/100
\tffffffff8209c18c bbr_main ([kernel.kallsyms])
\tffffffff820224d4 __x64_sys_sendto ([kernel.kallsyms])
\t    7f805fa64bf0 __send (/usr/lib/libc.so.6)

spansieve  100/102
\t    7f805fa64bf0 read_attributes (/somewhere/_spansieve.cpython-311.so)

a name 7  100/102
\t    7f805fa64bf0 [unknown] (/usr/lib/libzstd.so.1.5.4)
\t    7f805fa64bf0 ss_compress (/somewhere/_spansieve.cpython-311.so)

spansieve  100/102
\tffffffff8209c18c handle_softirqs ([kernel.kallsyms])
"""


def test_samples_are_read() -> None:
    """Process and thread, and the functions with their libraries, the innermost one first."""
    samples = list(perf.parse(SCRIPT))
    assert [(100, 100), (100, 102), (100, 102), (100, 102)] == [(s.process, s.thread) for s in samples]
    assert perf.Frame("__send", "libc.so.6") == samples[0].stack[-1]
    assert [] == list(perf.parse(""))


def test_time_is_put_down_to_what_it_was_spent_for() -> None:
    """A system call with all that the kernel does for it; a library; our own C."""
    costs = [cost for cost, _ in perf.costs(list(perf.parse(SCRIPT)))]
    assert {
        "kernel: sendto",
        "spansieve's C",
        "libzstd.so.1.5.4",
        "kernel: interrupts, scheduling and faults",
    } == set(costs)


def test_a_profile_is_told_by_cost_by_thread_and_by_function() -> None:
    """Shares are of all, and within a thread of the thread."""
    text = perf.render(list(perf.parse(SCRIPT)))
    assert "25.0%  kernel: sendto" in text
    assert "75.0%  thread 102, of which\n  33.3%  " in text
    assert "25.0%  main thread 100, of which\n  100.0%  kernel: sendto" in text
    assert "25.0%  read_attributes (_spansieve.cpython-311.so)" in text
