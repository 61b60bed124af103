import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Pages ask facetd by the same origin: /search is passed on. In production a proxy does that.
export default defineConfig({
  plugins: [react()],
  server: {
    proxy: {
      "/search": {
        target: process.env.FACETD_URL ?? "http://127.0.0.1:3000",
        changeOrigin: true,
        rewrite: (path) => path.replace(/^\/search/, ""),
      },
    },
  },
});
