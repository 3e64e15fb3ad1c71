// Prints the number of each event, from the oldest on, until SIGTERM.
import { createCircadia } from "@circadia/client";

const baseUrl = process.env["CIRCADIA_URL"]!;
const circadia = createCircadia({ baseUrl, token: process.env["CIRCADIA_ADMIN_TOKEN"]! });
const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());
for await (const event of circadia.events({ after: 0, signal: stop.signal })) console.log(event.number);
console.log("ended");
