"""Words that were probably meant."""

from __future__ import annotations

import pytest

from collector.config.spelling import nearest

KNOWN = (
    "attributes",
    "batch",
    "endpoint",
    "metrics_transform",
    "otlp",
    "otlp_http",
    "resource",
    "send_batch_size",
)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("bacth", "batch"),
        ("batch", "batch"),
        ("Batch", "batch"),
        ("btch", "batch"),
        ("attribute", "attributes"),
        ("otpl", "otlp"),
        ("otlphttp", "otlp_http"),
        ("sendBatchSize", "send_batch_size"),
        ("send-batch-sizes", "send_batch_size"),
        ("endpont", "endpoint"),
        ("metricstransfrom", "metrics_transform"),
        ("transform", None),
        ("resource_detection", None),
        ("k8s_attributes", None),
        ("otlp_grpc", None),
        ("loki", None),
        ("size", None),
        ("", None),
    ],
)
def test_a_slip_of_the_pen_is_no_other_word(word: str, meant: str | None) -> None:
    """A letter or two, case, and the marks between words; not a word that shares a part."""
    assert meant == nearest(word, KNOWN)


def test_the_nearest_of_several_wins() -> None:
    """Whatever their order."""
    assert "file_log" == nearest("filelgo", ["file_stats", "file_log", "file"])
