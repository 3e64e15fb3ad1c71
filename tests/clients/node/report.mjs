// How the scripts here talk to the tests: a JSON line in for each call, a JSON line out.
import { createInterface } from "node:readline";

function told(error) {
  const classes = [];
  for (let at = error?.constructor; at?.name; at = Object.getPrototypeOf(at)) classes.push(at.name);
  return { error: { classes, status: error?.status ?? null, code: error?.code ?? null, message: String(error?.message) } };
}

export async function serve(work) {
  for await (const given of createInterface({ input: process.stdin })) {
    const line = await work(JSON.parse(given)).catch(told);
    process.stdout.write(JSON.stringify(line) + "\n");
  }
  process.exit(0);
}
