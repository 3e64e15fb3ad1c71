// Makes one model call with the AI SDK and prints the answer: `generate` with a time-out of 0.3 s, or `stream`.
import { createOpenAI } from "@ai-sdk/openai";
import { circadiaMiddleware, gatewaySettings } from "@circadia/client";
import { generateText, streamText, wrapLanguageModel } from "ai";

const gateway = { baseUrl: process.env["CIRCADIA_URL"]!, token: process.env["AGENT_TOKEN"]! };
const openai = createOpenAI(gatewaySettings(gateway));
const model = wrapLanguageModel({
  model: openai("mock-1"),
  middleware: circadiaMiddleware({ user: "Zoë 東京", conversation: "c-1" }),
});
const call = { model, prompt: "hello", maxRetries: 0 };
const generate = process.argv[2] === "generate";
console.log(generate ? (await generateText({ ...call, timeout: 300 })).text : await streamText(call).text);
