// The operations that most programs use, against the server of CIRCADIA_URL.
import assert from "node:assert/strict";
import { test } from "node:test";

import { CircadiaError, createCircadia, type CircadiaEvent } from "@circadia/client";

const baseUrl = process.env["CIRCADIA_URL"]!;
const circadia = createCircadia({ baseUrl, token: process.env["CIRCADIA_ADMIN_TOKEN"]! });

test("sessions, agents and their sleep", async () => {
  const created = await circadia.createSession({
    body: {
      name: "release-7",
      agents: [{ name: "lead" }, { name: "writer", sleep_events: ["agent_started"], wake_events: ["mentioned"] }],
      threads: [{ name: "notes", participants: ["lead", "writer"] }],
    },
  });
  assert.ok(created.agents.every(({ token }) => token.length > 20));
  const { agents } = await circadia.listAgents({ path: { session: "release-7" } });
  assert.deepEqual(agents.map(({ name }) => name), ["lead", "writer"]);
  const path = { session: "release-7", agent: "lead" };
  assert.equal((await circadia.setSleeping({ path, body: { sleeping: true } })).sleeping, true);
  assert.equal((await circadia.getSleeping({ path })).sleeping, true);
  const asLead = createCircadia({ baseUrl, token: created.agents[0]!.token });
  assert.equal((await asLead.setSleeping({ path, body: { sleeping: false } })).sleeping, false);
  await assert.rejects(asLead.listSessions(), { status: 403, code: "forbidden" });
  const thread = { session: "release-7", thread: "notes" };
  await asLead.sendMessage({ path: thread, body: { content: "@writer hello" } });
  const { messages } = await circadia.listMessages({ path: thread });
  assert.equal(messages.at(-1)?.content, "@writer hello");
});

test("waits end with the state that they wait for, or with their time", async () => {
  const path = { session: "default", agent: "waiting" };
  await circadia.createAgent({ path: { session: "default" }, body: { name: "waiting" } });
  const asleep = circadia.waitUntilSleeping({ path }, { timeoutSeconds: 60 });
  await circadia.setSleeping({ path, body: { sleeping: true } });
  assert.equal((await asleep).sleeping, true);
  await assert.rejects(circadia.waitUntilSleeping({ path }, { sleeping: false, timeoutSeconds: 0.1 }), {
    name: "TimeoutError",
  });
  const left = new AbortController();
  const inbox = circadia.waitForInbox({ path: { agent: "waiting" } }, { signal: left.signal });
  left.abort(new Error("no longer"));
  await assert.rejects(inbox, /no longer/);
  const arrived = circadia.waitForInbox({ path: { agent: "waiting" } }, { timeoutSeconds: 60 });
  const sent = await circadia.sendDirect({ body: { to: "waiting", content: "the build is green", wake: "user_request" } });
  assert.equal((await arrived).messages[0]!.content, "the build is green");
  const wake = await circadia.waitForWake({ path: { wake: sent.wake! } }, { timeoutSeconds: 60 });
  assert.equal(wake.decision, "admitted");
  const thread = { session: "release-7", thread: "notes" };
  const { messages } = await circadia.waitForMessages({ path: thread }, { timeoutSeconds: 60 });
  assert.equal(messages[0]!.content, "@writer hello");
});

test("messages and wakes, repeated with their key", async () => {
  const message = { to: "release-7:writer", content: "the build is green", key: "build-12" };
  const first = await circadia.sendDirect({ body: message });
  const second = await circadia.sendDirect({ body: message });
  assert.equal(second.message, first.message);
  const other = { ...message, content: "the build is red" };
  await assert.rejects(circadia.sendDirect({ body: other }), { status: 409, code: "conflict" });
  const inbox = await circadia.showInbox({ path: { agent: "release-7:writer" } });
  assert.deepEqual(inbox.messages.map(({ content }) => content), ["@writer hello", "the build is green"]);
  const wake = await circadia.wakeAgent({ body: { to: "release-7:writer", reason: "user_request" } });
  assert.equal(wake.decision, "admitted");
  assert.equal((await circadia.showWake({ path: { wake: wake.wake! } })).id, wake.wake);
});

test("banks and their search", async () => {
  const bank = { bank: "release-notes" };
  await circadia.createBank({ body: { name: bank.bank } });
  await circadia.remember({ path: bank, body: { text: "The parrot is called Einstein.", key: "1" } });
  await circadia.remember({ path: bank, body: { text: "The train leaves at noon." } });
  const { hits } = await circadia.searchBank({ path: bank, query: { q: "What is the parrot's name?", limit: 1 } });
  assert.match(hits[0]!.text, /Einstein/);
  const exported = await circadia.exportBank({ path: bank });
  assert.ok(exported.split("\n").some((line) => line.includes("Einstein")));
  await circadia.createBank({ body: { name: "copy" } });
  await circadia.importLines({ path: { bank: "copy" }, body: new Blob([exported]) });
  assert.equal((await circadia.listEpisodes({ path: { bank: "copy" } })).episodes.length, 2);
});

test("an unknown session is a CircadiaError with the server's problem", async () => {
  const error: unknown = await circadia.showSession({ path: { session: "release-8" } }).catch((error) => error);
  assert.ok(error instanceof CircadiaError);
  assert.deepEqual([error.status, error.code, error.problem?.status], [404, "not_found", 404]);
  assert.match(error.message, /release-7/);
});

test("events, filtered, from the oldest on", async () => {
  const events: CircadiaEvent[] = [];
  for await (const event of circadia.events({ after: 0, session: "release-7", type: ["sleep_start", "sleep_stop"] })) {
    if (event.agent === "lead" && events.push(event) === 2) break;
  }
  assert.deepEqual(events.map(({ type }) => type), ["sleep_start", "sleep_stop"]);
});

test("a schedule is tried, set, and not overwritten by who has read an older one; usage is grouped by two", async () => {
  const path = { agent: "release-7:writer" };
  const { etag } = await circadia.showSchedule({ path });
  const change = { path, headers: { "If-Match": etag }, body: { routines: [{ name: "r", every_seconds: 3600 }] } };
  assert.equal((await circadia.setSchedule({ ...change, query: { dry_run: true } })).next_runs.length, 10);
  assert.equal((await circadia.showSchedule({ path })).etag, etag);
  await circadia.setSchedule(change);
  await assert.rejects(circadia.setSchedule(change), { status: 412, code: "precondition_failed" });
  assert.equal((await circadia.reportUsage({ query: { group_by: ["day", "tier"] } })).group_by, "day,tier");
});
