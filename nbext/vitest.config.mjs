import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'jsdom',
    // Each file has a page of its own here as well, without a whole thread being made for it.
    pool: 'vmThreads',
    include: ['tests/**/*.test.ts'],
    // A host may be slow, and busy with machines; how long a test took decides nothing.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // What JupyterLab ships is for bundlers: imports without an ending, style sheets among them.
    server: { deps: { inline: [/@jupyterlab\//, /@lumino\//, /@jupyter\//] } }
  }
});
