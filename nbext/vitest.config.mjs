import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    environment: 'jsdom',
    // Each file has a page of its own here as well, without a whole thread being made for it.
    pool: 'vmThreads',
    include: ['tests/**/*.test.ts'],
    // What JupyterLab ships is for bundlers: imports without an ending, style sheets among them.
    server: { deps: { inline: [/@jupyterlab\//, /@lumino\//, /@jupyter\//] } }
  }
});
