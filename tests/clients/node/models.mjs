// Calls with the official model SDKs, with their default settings but for what the test gives in `options`.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

import { serve } from "./report.mjs";

const model = "mock-1";

async function chat(settings, text, stream) {
  const client = new OpenAI(settings);
  const messages = [{ role: "user", content: text }];
  if (!stream) return (await client.chat.completions.create({ model, messages })).choices[0].message.content;
  let said = "";
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    said += chunk.choices[0].delta.content ?? "";
  }
  return said;
}

async function responses(settings, text, stream) {
  const client = new OpenAI(settings);
  if (!stream) return (await client.responses.create({ model, input: text })).output_text;
  let said = "";
  for await (const event of await client.responses.create({ model, input: text, stream: true })) {
    if (event.type === "response.output_text.delta") said += event.delta;
  }
  return said;
}

async function anthropic(settings, text, stream) {
  const client = new Anthropic(settings);
  const request = { model, messages: [{ role: "user", content: text }], max_tokens: 100 };
  if (!stream) return (await client.messages.create(request)).content[0].text;
  let said = "";
  for await (const event of await client.messages.create({ ...request, stream: true })) {
    if (event.type === "content_block_delta") said += event.delta.text;
  }
  return said;
}

const calls = { chat, responses, messages: anthropic };

await serve(async ({ call, stream, base_url: baseURL, key: apiKey, text, options }) => ({
  text: await calls[call]({ baseURL, apiKey, ...options }, text, stream),
}));
