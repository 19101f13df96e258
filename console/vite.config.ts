// The build: hashed files below /ui/, into the package of the server that serves them.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const out = "../server/turnstile_server/console/site";

/** Every file that decides what is built, as tests/unit/server/test_console_build.py reads them. */
function sources(root: string): string[] {
  const inSrc = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"))
    .filter((path) => !path.startsWith("src/api/generated/"));
  return [...inSrc, "index.html", "package-lock.json", "package.json", "vite.config.ts"].sort();
}

/** Records which sources were built: SHA-256 over each path, a zero byte, the content and a zero byte, in the order of the paths. */
function recordSources(): Plugin {
  return {
    name: "record-sources",
    closeBundle() {
      const root = import.meta.dirname;
      const hash = createHash("sha256");
      for (const path of sources(root)) hash.update(path).update("\0").update(readFileSync(join(root, path))).update("\0");
      writeFileSync(join(root, out, "sources.sha256"), `${hash.digest("hex")}\n`);
    },
  };
}

export default defineConfig({
  base: "/ui/",
  plugins: [react(), recordSources()],
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8750", "/ui/settings.json": "http://127.0.0.1:8750" } },
});
