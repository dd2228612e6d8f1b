// Bundles what is ours: the plugin for jupyter-builder to pack, and the widget as the one file a kernel sends.
// `node build.mjs` makes both, `node build.mjs plugin` or `node build.mjs widget` one of them; `demo` a page to look at.
import { readFile } from 'node:fs/promises';
import { build, transform } from 'esbuild';

const WIDGET = '../kernel/branchpoint_kernel/front_end/lineage.js';

/** A style sheet is imported as its text, for whoever puts it into a page themselves. */
const styleAsText = {
  name: 'style-as-text',
  setup({ onLoad }) {
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, 'utf8'), {
        loader: 'css',
        minify: true
      });
      return { contents: code.trim(), loader: 'text' };
    });
  }
};

const shared = {
  bundle: true,
  format: 'esm',
  target: 'es2022',
  charset: 'utf8',
  logLevel: 'warning',
  plugins: [styleAsText]
};

const bundles = {
  // JupyterLab's packages are the page's own, and jupyter-builder says so to it.
  plugin: {
    ...shared,
    entryPoints: ['src/index.ts'],
    outfile: 'lib/index.js',
    packages: 'external'
  },
  widget: { ...shared, entryPoints: ['src/widget.ts'], outfile: WIDGET, minify: true },
  demo: { ...shared, format: 'iife', entryPoints: ['demo/page.ts'], outfile: 'demo/built/page.js' }
};

const wanted = process.argv.length > 2 ? process.argv.slice(2) : ['plugin', 'widget'];
await Promise.all(wanted.map(name => build(bundles[name])));
