// A sleep-time worker as people write it by hand; circadia.yaml beside it replaces it.
//
//     node examples/sleeptime/worker.ts conversation.jsonl memory.md
//
// The agent appends each turn to the first file as a line of JSON, and puts the second file into its prompt. A background
// loop reads what is new, and has a cheap model rewrite the memory. See worker.py for what goes wrong with such loops.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

import OpenAI from 'openai';

const MODEL = process.env.SLEEP_MODEL ?? 'gpt-5-nano';
const PAUSE_SECONDS = Number(process.env.PAUSE_SECONDS ?? 60);
const TURNS = 5;
const INSTRUCTIONS =
  "You maintain an assistant's memory while it is idle. Merge the new turns into the memory: keep names, dates and " +
  'decisions, replace what no longer holds, and leave out small talk. Answer with the whole new memory only.';

async function consolidate(client: OpenAI, memory: string, turns: string[]): Promise<string> {
  const spoken = turns.map((turn) => JSON.parse(turn)).map(({ speaker, text }) => `${speaker}: ${text}`);
  const answer = await client.chat.completions.create({
    model: MODEL,
    messages: [
      { role: 'system', content: INSTRUCTIONS },
      { role: 'user', content: `Memory:\n${memory}\n\nNew turns:\n${spoken.join('\n')}` },
    ],
  });
  return answer.choices[0]?.message.content ?? memory;
}

const read = (file: string): string => (existsSync(file) ? readFileSync(file, 'utf8') : '');

const [conversation, memory] = process.argv.slice(2) as [string, string];
const cursor = memory.replace(/\.\w+$/, '.cursor');
const client = new OpenAI();
for (;;) {
  const done = Number(read(cursor));
  const turns = read(conversation).split('\n').filter(Boolean).slice(done);
  if (turns.length >= TURNS) {
    writeFileSync(memory, await consolidate(client, read(memory), turns));
    writeFileSync(cursor, String(done + turns.length));
    console.log(`${turns.length} turns`);
  }
  await setTimeout(PAUSE_SECONDS * 1000);
}
