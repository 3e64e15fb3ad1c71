import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";

import { CircadiaError } from "@circadia/client";

import { destroy, json, problem, startServer } from "./fake-server.ts";

const SESSIONS = { sessions: [] };
const BUSY = problem(503, "storage_unavailable", { "retry-after": "0" });
const SENT = { to: "ann", content: "hello" };

test("a GET is repeated after 503, not before its Retry-After", async (t) => {
  const server = await startServer(t, problem(503, "ended", { "retry-after": "1" }), json(SESSIONS));
  assert.deepEqual(await server.client().listSessions(), SESSIONS);
  const [first, second] = server.requests;
  assert.ok(second!.at - first!.at >= 995, `${second!.at - first!.at} ms`);
  assert.equal(second!.headers.authorization, "Bearer secret");
});

test("a GET is repeated after a connection that breaks before the response", async (t) => {
  const server = await startServer(t, destroy, json(SESSIONS));
  assert.deepEqual(await server.client().listSessions(), SESSIONS);
});

test("a POST with an idempotency key is repeated with the same body", async (t) => {
  const server = await startServer(t, BUSY, destroy, json({ accepted: true }));
  await server.client().sendDirect({ body: { ...SENT, key: "deploy-42" } });
  assert.deepEqual(server.requests.map(({ body }) => JSON.parse(body)), Array(3).fill({ ...SENT, key: "deploy-42" }));
  const other = await startServer(t, BUSY, json({ accepted: true }));
  await other.client().sendDirect({ body: SENT, headers: { "Idempotency-Key": "deploy-42" } });
  assert.equal(other.requests.length, 2);
});

test("a POST without an idempotency key, a PUT and a DELETE are sent once", async (t) => {
  const server = await startServer(t, BUSY);
  const client = server.client();
  const path = { session: "default", agent: "ann" };
  await assert.rejects(client.sendDirect({ body: SENT }), { status: 503, code: "storage_unavailable" });
  await assert.rejects(client.setSleeping({ path, body: { sleeping: true } }), { status: 503 });
  await assert.rejects(client.deleteAgent({ path }), { status: 503 });
  assert.deepEqual(server.requests.map(({ method }) => method), ["POST", "PUT", "DELETE"]);
});

test("a response whose body breaks off is not asked for again", async (t) => {
  const server = await startServer(t, (response) => {
    response.writeHead(200, { "content-type": "application/json" }).write('{"sessions": [', () => destroy(response));
  });
  await assert.rejects(server.client().listSessions(), { name: "CircadiaError", code: "unreachable" });
  assert.equal(server.requests.length, 1);
});

test("retries end: after maxRetries, or at once for a Retry-After of more than a minute", async (t) => {
  const server = await startServer(t, problem(429, "limit_reached", { "retry-after": "0" }));
  await assert.rejects(server.client({ maxRetries: 2 }).listSessions(), { status: 429 });
  assert.equal(server.requests.length, 3);
  const patient = await startServer(t, problem(429, "limit_reached", { "retry-after": "61" }));
  await assert.rejects(patient.client().listSessions(), { status: 429, retryAfterSeconds: 61 });
  assert.equal(patient.requests.length, 1);
});

test("an error carries the problem document", async (t) => {
  const server = await startServer(t, problem(404, "not_found"));
  const error = await server.client().showSession({ path: { session: "none" } }).catch((error) => error);
  assert.ok(error instanceof CircadiaError);
  assert.deepEqual([error.status, error.code, error.message], [404, "not_found", "it is not_found"]);
  assert.equal(error.problem?.type, "urn:circadia:error:not_found");
});

test("what is not Circadia, and a server that is away, are errors of the same class", async (t) => {
  const page = (status: number) => (response: ServerResponse) => {
    response.writeHead(status, { "content-type": "text/html" }).end("<html>");
  };
  const server = await startServer(t, page(200), page(404), json("{", 200), (response) => {
    response.writeHead(200, { "content-type": "application/json" }).end("{");
  });
  const client = server.client();
  await assert.rejects(client.listSessions(), { code: "unexpected_response", status: 200 });
  await assert.rejects(client.listSessions(), { code: "unexpected_response", status: 404 });
  await client.listSessions();
  await assert.rejects(client.listSessions(), { code: "unexpected_response", status: 200 });
  const away = server.client({ maxRetries: 1 });
  await server.stop();
  await assert.rejects(away.listSessions(), { name: "CircadiaError", code: "unreachable", message: /ECONNREFUSED/ });
});

test("a response that does not begin in time is given up", async (t) => {
  const server = await startServer(t, () => {});
  const client = server.client({ timeoutSeconds: 0.5, maxRetries: 1 });
  await assert.rejects(client.listSessions(), { code: "unreachable", message: /no response within 0.5 s/ });
  assert.equal(server.requests.length, 2);
});

test("an abort ends a call, and the pause before its retry, with the caller's reason", async (t) => {
  const server = await startServer(t, problem(503, "ended", { "retry-after": "60" }));
  const abort = new AbortController();
  const call = server.client().listSessions({ signal: abort.signal });
  while (server.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  abort.abort(new Error("never mind"));
  await assert.rejects(call, { message: "never mind" });
});

test("JSON Lines arrive as text", async (t) => {
  const server = await startServer(t, (response) => {
    response.writeHead(200, { "content-type": "application/x-ndjson" }).end('{"a":1}\n{"b":2}\n');
  });
  assert.equal(await server.client().exportBank({ path: { bank: "notes" } }), '{"a":1}\n{"b":2}\n');
});
