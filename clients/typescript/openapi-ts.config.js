import { fileURLToPath } from "node:url";

// `make client` writes openapi.json; `-i` and `-o` of the command line replace the paths.
export default {
  input: fileURLToPath(new URL("openapi.json", import.meta.url)),
  output: { path: "src/generated", clean: true, module: { extension: ".js" } },
  // `Circadia.events()` follows the stream, with a resume that the generator's own reader does not have.
  parser: { filters: { operations: { exclude: ["GET /api/v1/events/stream"] } } },
  plugins: [
    { name: "@hey-api/client-fetch", baseUrl: false, throwOnError: true },
    "@hey-api/typescript",
    {
      name: "@hey-api/sdk",
      auth: false,
      responseStyle: "data",
      operations: { strategy: "single", containerName: "Operations" },
    },
  ],
};
