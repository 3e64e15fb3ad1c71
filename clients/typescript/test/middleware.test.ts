import assert from "node:assert/strict";
import { test } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import { circadiaMiddleware, gatewaySettings, type MiddlewareOptions } from "@circadia/client";
import { generateText, streamText, wrapLanguageModel } from "ai";

import { type FakeServer, json, startServer } from "./fake-server.ts";

const ANSWER = json({
  id: "1",
  object: "chat.completion",
  created: 0,
  model: "m",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hello" } }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
const REFUSED = { error: { message: "busy", type: "x", param: null, code: "still_asleep" } };
const ASLEEP = json(REFUSED, 503, { "retry-after": "0", "x-circadia-error": "still_asleep" });

function model(server: FakeServer, options?: MiddlewareOptions) {
  const openai = createOpenAI(gatewaySettings({ baseUrl: `${server.url}/`, token: "of-the-agent" }));
  return wrapLanguageModel({ model: openai.chat("m"), middleware: circadiaMiddleware(options) });
}

test("a call goes to the gateway with the agent's token and what it says about itself", async (t) => {
  const server = await startServer(t, ANSWER);
  const circadia = { user: "Zoë 東京", trust: "tool", memory: "off" };
  const bot = model(server, { user: "ann", conversation: "c-1" });
  await generateText({ model: bot, prompt: "hi", providerOptions: { circadia } });
  const [{ path, headers }] = server.requests as [(typeof server.requests)[0]];
  assert.equal(path, "/llm/openai/v1/chat/completions");
  assert.equal(headers.authorization, "Bearer of-the-agent");
  assert.equal(Buffer.from(headers["x-circadia-user"] as string, "latin1").toString("utf8"), "Zoë 東京");
  assert.equal(headers["x-circadia-conversation"], "c-1");
  assert.equal(headers["x-circadia-trust"], "tool");
  assert.equal(headers["x-circadia-memory"], "off");
  assert.equal(headers["x-stainless-timeout"], "300");
  await generateText({ model: model(server), prompt: "hi" });
  assert.equal(server.requests[1]!.headers["x-circadia-user"], undefined);
});

test("a call that the gateway refuses because the agent sleeps is repeated without end", async (t) => {
  const server = await startServer(t, ...Array(5).fill(ASLEEP), ANSWER);
  const { text } = await generateText({ model: model(server), prompt: "hi", maxRetries: 0 });
  assert.deepEqual([text, server.requests.length], ["hello", 6]);
});

test("a provider's own 503 is left to the AI SDK", async (t) => {
  const server = await startServer(t, json(REFUSED, 503, { "retry-after": "0", "x-should-retry": "true" }));
  await assert.rejects(generateText({ model: model(server), prompt: "hi", maxRetries: 0 }), { statusCode: 503 });
  assert.equal(server.requests.length, 1);
});

test("a stream is repeated too, before it began", async (t) => {
  const chunk = { id: "1", object: "chat.completion.chunk", created: 0, model: "m" };
  const data = { ...chunk, choices: [{ index: 0, delta: { content: "hello" }, finish_reason: "stop" }] };
  const server = await startServer(t, ASLEEP, (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`: keep-alive\n\ndata: ${JSON.stringify(data)}\n\ndata: [DONE]\n\n`);
  });
  assert.equal(await streamText({ model: model(server), prompt: "hi", maxRetries: 0 }).text, "hello");
  assert.equal(server.requests.length, 2);
});

test("an abort ends the wait; a time-out does so only with keepTimeouts", async (t) => {
  const server = await startServer(t, () => {});
  const abort = new AbortController();
  const call = generateText({ model: model(server), prompt: "hi", abortSignal: abort.signal });
  while (server.requests.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  abort.abort();
  await assert.rejects(call, { name: "AbortError" });
  const kept = model(server, { keepTimeouts: true });
  await assert.rejects(generateText({ model: kept, prompt: "hi", timeout: 100 }), { name: "TimeoutError" });
});
