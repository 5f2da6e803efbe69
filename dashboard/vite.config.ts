import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** The stack that `deno task dev` speaks to. */
const stack = process.env.OPENMANUS_RL_STACK ?? "http://127.0.0.1:54321";
const paths = ["/rest", "/auth", "/storage", "/functions", "/realtime", "/config.json"];

export default defineConfig({
  // Relative, so that one build serves from any path; index.html's <base> says which.
  base: "./",
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)) } },
  build: { target: "es2022", chunkSizeWarningLimit: 900, reportCompressedSize: false },
  server: { host: "127.0.0.1", proxy: Object.fromEntries(paths.map((path) => [path, { target: stack, ws: true }])) },
});
