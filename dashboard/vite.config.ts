import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
/** For `npm run dev`: a running server, whose own page signs in. */
const server = process.env["CIRCADIA_URL"] ?? "http://127.0.0.1:4114";

export default defineConfig({
  base: "/ui/",
  plugins: [react()],
  resolve: { alias: { "@circadia/client": path("../clients/typescript/src/index.ts") } },
  build: {
    outDir: path("../src/circadia/dashboard"),
    emptyOutDir: true,
    assetsInlineLimit: 0,
    target: "es2022",
    modulePreload: { polyfill: false },
    license: { fileName: "third-party-licences.md" },
    chunkSizeWarningLimit: 700, // kB before compression; a test holds the first view below 350 kB
  },
  server: { proxy: { "/api": server, "/readyz": server, "/ui/session": server } },
});
