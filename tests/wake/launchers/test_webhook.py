"""What the webhook launcher does beyond the contract."""

import asyncio
import base64
import gzip
import hashlib
import hmac
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta

import pytest
from aiohttp import web

from circadia.client.webhooks import WebhookReceiver
from circadia.errors import ConfigError, Unauthenticated
from circadia.testing.clock import ManualClock
from circadia.wake.launchers.base import LaunchFailed, LaunchResult, PulseReports
from circadia.wake.webhook_signatures import signature, signing_key
from tests.wake.launchers.benches import PULSE, TOKEN, a_launch, until
from tests.wake.launchers.webhook_bench import SECRET, WebhookBench, serving, webhook_bench

ANSWER_BYTES = 64 * 2**10

pytestmark = pytest.mark.spec("WAKE-51")


@pytest.fixture
async def bench() -> AsyncIterator[WebhookBench]:
    async with webhook_bench(calls_back=False) as opened:
        yield opened


class Starts:
    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self) -> None:
        self.calls += 1


async def answered(bench: WebhookBench, *answers: web.Response, retries: int = 0) -> tuple[object, int]:
    """Return how a run ended, as an `LaunchResult` or a LaunchFailed's text, and how often `started` was called."""
    bench.answers.extend(answers)
    starts = Starts()
    try:
        return await bench.posting_to(bench.url, retries=retries).run(a_launch(), starts), starts.calls
    except LaunchFailed as error:
        return str(error), starts.calls


async def test_the_request_is_signed_as_the_standard_says(bench: WebhookBench) -> None:
    await bench.launcher("succeed").run(a_launch(epoch=2), Starts())
    ((headers, body),) = bench.heard
    assert headers["webhook-id"] == f"{PULSE}-2"
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    said = json.loads(body)
    assert (said["type"], said["pulse"], said["attempt"], said["epoch"]) == ("pulse.start", PULSE, 2, 2)
    assert (said["agent"], said["token"], said["timeout_seconds"]) == ("default:worker", TOKEN, 60.0)


def test_the_signature_is_that_of_the_standards_own_example() -> None:
    """The example of the Standard Webhooks specification's reference libraries."""
    key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body) == expected


@pytest.mark.parametrize("secret", ["", "short", "whsec_AAAA", "whsec_" + "A" * 100, "not base64 at all, is it?"])
def test_a_secret_that_is_no_good_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(ConfigError) as told:
        signing_key(secret)
    assert not secret or secret not in str(told.value)


async def test_a_plain_2xx_succeeds_and_a_status_decides(bench: WebhookBench) -> None:
    ended, starts = await answered(bench, web.Response(status=204))
    assert (getattr(ended, "succeeded", None), starts) == (True, 1)
    ended, _ = await answered(bench, web.json_response({"status": "failed", "detail": f"no {TOKEN}"}))
    assert (getattr(ended, "succeeded", None), getattr(ended, "detail", "")) == (False, "no [redacted]")
    ended, _ = await answered(bench, web.json_response({"status": "so-so"}))
    assert getattr(ended, "succeeded", None) is False


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 410, 422, 429])
async def test_a_refusal_or_redirect_says_that_nothing_ran(bench: WebhookBench, status: int) -> None:
    elsewhere = {"Location": bench.url} if status < 400 else {}
    told, starts = await answered(bench, web.Response(status=status, headers=elsewhere), retries=3)
    assert isinstance(told, str)
    assert f"answered {status}" in told
    assert (starts, len(bench.heard)) == (0, 1)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_where_nobody_knows_whether_it_ran_the_pulse_has_run_and_failed(bench: WebhookBench, status: int) -> None:
    ended, starts = await answered(bench, web.Response(status=status, text="oh"), retries=3)
    assert getattr(ended, "succeeded", None) is False
    assert "may have run" in getattr(ended, "detail", "")
    assert (starts, len(bench.heard)) == (1, 1)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_receiver_is_asked_again_with_the_same_id_when_it_says(bench: WebhookBench, status: int) -> None:
    bench.answers.extend([web.Response(status=status, headers={"Retry-After": "20"})])
    clock = ManualClock(bench.receiver._clock.now())  # pyright: ignore[reportPrivateUsage]
    bench.receiver = WebhookReceiver(SECRET, clock=clock)
    starts = Starts()
    run = asyncio.create_task(bench.posting_to(bench.url, retries=1, clock=clock).run(a_launch(), starts))
    await clock.wait_for_sleepers(1)
    assert starts.calls == 0
    clock.advance(20)
    assert (await run).succeeded
    first, second = (headers for headers, _ in bench.heard)
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 20
    assert starts.calls == 1


async def test_a_receiver_that_is_busy_for_too_long_has_run_nothing(bench: WebhookBench) -> None:
    told, starts = await answered(bench, web.Response(status=503, headers={"Retry-After": "3600"}), retries=3)
    assert isinstance(told, str)
    assert (starts, len(bench.heard)) == (0, 1)


async def test_a_receiver_that_breaks_off_or_is_slow_may_have_run_it(bench: WebhookBench) -> None:
    async def break_off(request: web.Request) -> web.Response:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def sleep(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    for handle in (break_off, sleep):
        starts = Starts()
        async with serving(handle) as url:
            ended = await bench.posting_to(url, answer_timeout_seconds=0.2).run(a_launch(), starts)
        assert not ended.succeeded
        assert "may have run" in ended.detail
        assert starts.calls == 1


@pytest.mark.parametrize("size", [1, 300_000])
@pytest.mark.parametrize("status", [200, 202, 404, 500])
async def test_a_receiver_that_is_quiet_counts_as_at_work_whatever_it_answers_later(
    bench: WebhookBench, status: int, size: int
) -> None:
    begun = asyncio.Event()
    calls: list[bytes] = []

    async def at_work(request: web.Request) -> web.Response:
        calls.append(await request.read())
        await begun.wait()
        return web.Response(status=status)

    async def started() -> None:
        assert not begun.is_set()
        begun.set()

    async with serving(at_work) as url:
        launch = a_launch(prompt="x" * size)
        run = asyncio.ensure_future(bench.posting_to(url, quiet_seconds=0.0).run(launch, started))
        await until(begun.is_set)
        if status == 202:
            bench.reports.deliver_report(launch.pulse_id, launch.epoch, LaunchResult(succeeded=True))
        if status == 404:
            with pytest.raises(LaunchFailed, match="answered 404"):
                await run
        else:
            assert (await run).succeeded is (status < 300)
    assert [json.loads(body)["prompt"] for body in calls] == ["x" * size]


async def test_a_quiet_receiver_whose_start_cannot_be_recorded_is_asked_to_stop(bench: WebhookBench) -> None:
    async def refused() -> None:
        raise ConnectionError("the database is away")

    bench.tasks.behaviour = "wait"
    with pytest.raises(ConnectionError):
        await bench.posting_to(bench.url, quiet_seconds=0.0).run(a_launch(), refused)
    await until(lambda: bench.alive(PULSE) == 0)
    assert [json.loads(body)["type"] for _, body in bench.heard] == ["pulse.start", "pulse.stop"]


async def test_a_receiver_that_takes_the_same_request_twice_runs_it_once(bench: WebhookBench) -> None:
    launcher = bench.launcher("succeed")
    await launcher.run(a_launch(), Starts())
    with pytest.raises(LaunchFailed, match="seen before"):
        await launcher.run(a_launch(), Starts())
    assert len(bench.tasks.launches) == 1


async def test_a_cancelled_pulse_is_asked_to_stop_by_a_signed_request(bench: WebhookBench) -> None:
    task = asyncio.create_task(bench.launcher("wait").run(a_launch(epoch=4), Starts()))
    await until(lambda: bench.waiting() == 1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    said = json.loads(bench.heard[-1][1])
    assert said == {"type": "pulse.stop", "pulse": PULSE, "below_epoch": 5}


async def test_a_report_that_comes_twice_or_to_a_run_that_is_being_cancelled_disturbs_nobody() -> None:
    reports, ended = PulseReports(), LaunchResult(succeeded=True)
    first, gone = (asyncio.create_task(reports.wait_for_report(PULSE, epoch=epoch)) for epoch in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    for epoch in (1, 1, 2):
        reports.deliver_report(PULSE, epoch, ended)
    assert await first == ended
    await asyncio.gather(gone, return_exceptions=True)
    assert gone.cancelled()


async def test_only_a_pulse_that_may_have_run_before_is_asked_to_stop_before_its_start(bench: WebhookBench) -> None:
    launcher = bench.launcher("succeed")
    await launcher.clear(PULSE, below_epoch=1)
    assert bench.heard == []
    await launcher.clear(PULSE, below_epoch=2)
    assert [json.loads(body)["type"] for _, body in bench.heard] == ["pulse.stop"]


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": ""},
        {"webhook-id": "another"},
        {"webhook-timestamp": "1"},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "²"},
    ],
    ids=str,
)
def test_a_forged_request_is_refused(change: Mapping[str, str]) -> None:
    clock = ManualClock()
    receiver = WebhookReceiver(SECRET, clock=clock)
    headers = signed_at(clock)
    assert receiver.verify(headers, b"{}") == {}
    with pytest.raises(Unauthenticated):
        receiver.verify({**headers, **change}, b"{}")
    with pytest.raises(Unauthenticated):
        receiver.verify(headers, b"{} ")


def test_an_old_request_is_refused_and_an_id_is_remembered_for_as_long_as_it_could_pass() -> None:
    clock = ManualClock()
    receiver = WebhookReceiver(SECRET, clock=clock)
    headers = signed_at(clock)
    assert receiver.take(headers)
    clock.advance(300)
    receiver.verify(headers, b"{}")
    assert not receiver.take(headers)
    clock.advance(1)
    with pytest.raises(Unauthenticated):
        receiver.verify(headers, b"{}")
    early = ManualClock(clock.now() - timedelta(seconds=301))
    with pytest.raises(Unauthenticated):
        WebhookReceiver(SECRET, clock=early).verify(signed_at(clock), b"{}")


def signed_at(clock: ManualClock) -> dict[str, str]:
    stamp = int(clock.now().timestamp())
    signed = signature(signing_key(SECRET), "m", stamp, b"{}")
    return {"webhook-id": "m", "webhook-timestamp": str(stamp), "webhook-signature": f"v1,x {signed} v2,y"}


FAILED = json.dumps({"status": "failed", "detail": "no paper"}).encode()


@pytest.mark.parametrize(("encoding", "packed"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_an_answer_that_is_compressed_unasked_is_read(
    bench: WebhookBench, encoding: str, packed: Callable[[bytes], bytes]
) -> None:
    answer = web.Response(body=packed(FAILED), headers={"content-encoding": encoding}, content_type="application/json")
    assert await answered(bench, answer) == (LaunchResult(succeeded=False, detail="no paper"), 1)
    assert bench.heard[0][0]["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("body", "succeeded", "detail"),
    [
        (rb'{"status": "failed", "detail": "half of it \ud83d"}', False, "half of it ?"),
        (rb'{"status": "succeeded", "detail": "\udc00 done"}', True, "? done"),
        (b'{"status": "failed", "share": NaN}', False, "HTTP 200"),
        (b"\xef\xbb\xbf" + FAILED, False, "no paper"),
        (b'{"detail": "' + b"x" * ANSWER_BYTES + b'", "status": "failed"}', False, f"longer than {ANSWER_BYTES} bytes"),
        (b'{"status": "failed", "detail": ' + b"[" * 20_000 + b"]" * 20_000 + b"}", False, "not JSON"),
        (b'{"status": "failed"', False, "not JSON"),
        (b"ok", True, "HTTP 200"),
        (b"<p>thanks", True, "HTTP 200"),
    ],
)
async def test_what_an_answer_says_of_a_failure_is_never_taken_for_success(
    bench: WebhookBench, body: bytes, succeeded: bool, detail: str
) -> None:
    ended, _ = await answered(bench, web.Response(body=body, content_type="application/json"))
    assert isinstance(ended, LaunchResult)
    assert ended.succeeded is succeeded
    assert detail in ended.detail


@pytest.mark.parametrize(("encoding", "body"), [("br", FAILED), ("gzip", FAILED), ("zstd, gzip", FAILED)])
async def test_an_answer_in_an_unknown_encoding_is_no_success(bench: WebhookBench, encoding: str, body: bytes) -> None:
    ended, _ = await answered(bench, web.Response(body=body, headers={"content-encoding": encoding}))
    assert isinstance(ended, LaunchResult)
    assert not ended.succeeded
    assert "cannot be decoded" in ended.detail


async def test_a_few_bytes_that_stand_for_very_many_take_no_room(bench: WebhookBench) -> None:
    bomb = gzip.compress(b"x" * 2**25)
    tracemalloc.start()
    try:
        await answered(bench, web.Response(body=bomb, headers={"content-encoding": "gzip"}))
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
