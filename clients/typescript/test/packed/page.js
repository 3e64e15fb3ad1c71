// Runs a bundle of smoke.js with the globals that a web page has, and none of Node's.
import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";

const page = createContext({
  AbortController, AbortSignal, DOMException, Headers, ReadableStream, Request, Response, TextDecoder, TextEncoder, URL,
  URLSearchParams, clearTimeout, fetch, setTimeout,
});
const [bundle, baseUrl, token] = process.argv.slice(2);
runInContext(readFileSync(bundle, "utf8"), page);
console.log(JSON.stringify(await page.bundle.smoke(baseUrl, token)));
