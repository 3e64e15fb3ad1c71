"""Registers what a server shows of itself among its metrics."""

from circadia.agents.identity import FailedTokens
from circadia.gateway.accounting.journal import Journal
from circadia.gateway.hold.bodies import BodiesInFlight
from circadia.gateway.memory.call_memory import ExchangeQueue
from circadia.gateway.model_call.hold import Gate
from circadia.gateway.model_call.resume import ResumableAnswers
from circadia.memory.services import MemoryServices
from circadia.sleeptime.engine.health import SleepHealth
from circadia.sleeptime.engine.worker import SleepWorker
from circadia.sleeptime.triggers.pass_lifecycle import BATCH_TOPIC, TOPIC
from circadia.stores.signals.base import Signals
from circadia.telemetry.metrics import Metrics
from circadia.wake.worker import WakeWorker


def register_gauges(
    metrics: Metrics, gate: Gate, bodies: BodiesInFlight, journal: Journal,
    exchanges: ExchangeQueue, worker: WakeWorker, signals: Signals, failed: FailedTokens, memory: MemoryServices,
    answers: ResumableAnswers,
) -> None:  # fmt: skip
    metrics.add_gauge("circadia_failed_tokens", "Invalid tokens.", lambda: failed.total)
    metrics.add_gauge("circadia_held_calls", "Calls held now.", lambda: gate.total_held)
    metrics.add_gauge("circadia_held_bytes", "Bytes of held bodies in memory.", lambda: gate.bodies.in_memory)
    metrics.add_gauge("circadia_body_bytes_in_flight", "Bytes of bodies on their way.", lambda: bodies.bytes)
    metrics.add_gauge("circadia_journal_lines", "Lines waiting to be written.", lambda: journal.waiting)
    metrics.add_gauge("circadia_exchanges_waiting", "Exchanges waiting to be stored.", lambda: exchanges.waiting)
    metrics.add_gauge("circadia_pulses_running", "Pulses that this process runs.", lambda: worker.running_count)
    metrics.add_gauge("circadia_resumable_answers", "Streamed answers kept to be resumed.", lambda: answers.count)
    metrics.add_gauge("circadia_resumable_bytes", "Bytes of these answers.", lambda: answers.bytes)
    metrics.add_gauge("circadia_approvals_waiting", "Approvals that calls wait for.", lambda: gate.approvals.waiting)
    for topic in ("wake", "pulse", "routine", "named_event", "prefix_break", "approval"):
        signals.listen(topic, lambda _, data, topic=topic: metrics.count_signal(topic, data), own=True)
    loaded = memory.retrieval.loaded
    metrics.add_gauge("circadia_index_banks", "Banks loaded for search.", lambda: len(loaded))
    metrics.add_gauge("circadia_index_bytes", "Memory of the loaded banks, in bytes.", lambda: loaded.weight)
    if (embedding := memory.embedding) is not None:
        prefix = "circadia_embedding_"
        metrics.add_gauge(f"{prefix}rows", "Texts embedded since the start.", lambda: embedding.embedded)
        metrics.add_gauge(f"{prefix}refused_rows", "Texts that the embedder refused.", lambda: embedding.refused)
        metrics.add_gauge(f"{prefix}failures_in_a_row", "Embedding failures in a row.", lambda: embedding.failures)


def register_sleep_gauges(metrics: Metrics, worker: SleepWorker, health: SleepHealth, signals: Signals) -> None:
    """Register the gauges of sleep-time work (SLEEP-60)."""
    prefix = "circadia_sleep_"
    metrics.add_gauge("circadia_passes_running", "Passes that this process runs.", lambda: worker.running_count)
    metrics.add_gauge(
        f"{prefix}lag_seconds", "Age of the oldest unprocessed turn in any bank.", lambda: health.seen.lag_seconds
    )
    metrics.add_gauge(
        f"{prefix}backlog_episodes", "Episodes of all banks behind their cursors.", lambda: health.seen.episodes
    )
    metrics.add_gauge(f"{prefix}banks_waiting", "Banks with a backlog or leftovers.", lambda: health.seen.banks)
    metrics.add_gauge(
        f"{prefix}failures_in_a_row", "Longest streak of failed passes of any bank.", lambda: health.seen.failures
    )
    metrics.add_gauge(f"{prefix}red_banks", "Banks with a health problem.", lambda: len(health.seen.red))
    metrics.add_gauge(f"{prefix}tokens_24h", "Tokens of passes within a day.", lambda: health.seen.tokens)
    metrics.add_gauge(f"{prefix}usd_24h", "US dollars of passes within a day.", lambda: health.seen.usd)
    metrics.add_gauge(
        f"{prefix}spent_tokens_today", "Tokens of passes since midnight (UTC).", lambda: health.seen.spent_today
    )
    metrics.add_gauge(
        f"{prefix}saved_tokens_today", "Tokens that passes saved hot calls, since midnight (UTC).",
        lambda: health.seen.saved_today,
    )  # fmt: skip
    for topic in (TOPIC, BATCH_TOPIC):
        signals.listen(topic, lambda _, data, topic=topic: metrics.count_signal(topic, data), own=True)
