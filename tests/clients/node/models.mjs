// One call with an official model SDK, with its default settings but for what the test gives in `options`.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

import { given, report } from "./report.mjs";

const { call, stream, base_url: baseURL, key: apiKey, text, options } = given;
const messages = [{ role: "user", content: text }];
const model = "mock-1";

async function chat() {
  const client = new OpenAI({ baseURL, apiKey, ...options });
  if (!stream) return (await client.chat.completions.create({ model, messages })).choices[0].message.content;
  let said = "";
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    said += chunk.choices[0].delta.content ?? "";
  }
  return said;
}

async function responses() {
  const client = new OpenAI({ baseURL, apiKey, ...options });
  if (!stream) return (await client.responses.create({ model, input: text })).output_text;
  let said = "";
  for await (const event of await client.responses.create({ model, input: text, stream: true })) {
    if (event.type === "response.output_text.delta") said += event.delta;
  }
  return said;
}

async function anthropic() {
  const client = new Anthropic({ baseURL, apiKey, ...options });
  const request = { model, messages, max_tokens: 100 };
  if (!stream) return (await client.messages.create(request)).content[0].text;
  let said = "";
  for await (const event of await client.messages.create({ ...request, stream: true })) {
    if (event.type === "content_block_delta") said += event.delta.text;
  }
  return said;
}

await report(async () => ({ text: await { chat, responses, messages: anthropic }[call]() }));
