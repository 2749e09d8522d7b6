"""Events as a collector on loopback gets them from the real SDK and exporter."""

from __future__ import annotations

from typing import Any

import refaug
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from refaug_opentelemetry import EVENT, SCHEMA_URL, emit_scores

ITEMS = [
    {"id": "tea", "references": ["At the market.", "In the shop."], "replies": {"new": "At the shop.", "old": "No."}},
    {"id": "bus", "references": ["In ten minutes."], "replies": {"new": "In two minutes.", "old": "No."}},
    {"id": "key", "references": [], "replies": {"new": "Here.", "old": "No."}},
]


def plain(attributes: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}


def test_a_collector_gets_an_event_for_each_reply_with_evaluator_version_and_signature(
    collector: tuple[str, list[bytes]],
) -> None:
    url, bodies = collector
    provider = LoggerProvider()
    provider.add_log_record_processor(
        BatchLogRecordProcessor(OTLPLogExporter(f"{url}/v1/logs", compression=Compression.NoCompression))
    )
    scores = refaug.score(ITEMS, metrics=["chrf", "bleu"])
    tracer = TracerProvider().get_tracer("bot")
    span = tracer.start_span("chat")
    count = emit_scores(
        scores,
        response_ids={"bus": "chatcmpl-7"},
        contexts={"tea": trace.set_span_in_context(span)},
        logger_provider=provider,
    )
    span.end()
    provider.shutdown()
    assert count == 12
    requests = [ExportLogsServiceRequest.FromString(body) for body in bodies]
    (scope,) = [scope for request in requests for logs in request.resource_logs for scope in logs.scope_logs]
    assert (scope.scope.name, scope.schema_url) == ("refaug", SCHEMA_URL)
    assert {record.event_name for record in scope.log_records} == {EVENT}
    events = [plain(record.attributes) for record in scope.log_records]
    known = {
        (metric.metric, system, reply.id): reply.score
        for metric in scores
        for system, scored in metric.systems.items()
        for reply in scored.details
    }
    assert {
        (
            event[gen_ai_attributes.GEN_AI_EVALUATION_NAME],
            event["refaug.system"],
            event["refaug.item"],
        ): event.get(gen_ai_attributes.GEN_AI_EVALUATION_SCORE_VALUE)
        for event in events
    } == known
    signatures = {metric.metric: metric.signature for metric in scores}
    for event in events:
        assert event["refaug.evaluator"] == event["gen_ai.evaluation.name"]
        assert event["refaug.signature"] == signatures[event["refaug.evaluator"]]
        assert event["refaug.version"] == refaug.__version__
        assert event.get("gen_ai.response.id") == ("chatcmpl-7" if event["refaug.item"] == "bus" else None)
        is_unscored = event["refaug.item"] == "key"
        assert event.get("error.type") == ("no_gold" if is_unscored else None)
        assert (gen_ai_attributes.GEN_AI_EVALUATION_EXPLANATION in event) is is_unscored
        assert "At the" not in str(event)
    parents = {
        record.span_id for record, event in zip(scope.log_records, events, strict=True) if event["refaug.item"] == "tea"
    }
    assert parents == {span.get_span_context().span_id.to_bytes(8, "big")}


def test_without_a_provider_nothing_is_sent_and_nothing_fails() -> None:
    assert emit_scores(refaug.score(ITEMS[:2], metric="chrf")) == 4
