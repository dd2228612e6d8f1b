/**
 * The style sheets as one text, for whoever draws a tree to have it in the page it is in: widget
 * and panel need no file beside their bundle.
 */

import { DARK, LIGHT, variables } from './colours';
import around from './around.css';
import desk from './desk.css';
import lineage from './lineage.css';

/** What says that a page is dark: JupyterLab, VS Code, Colab. */
const IS_DARK = [
  '[data-jp-theme-light="false"] .bp-lineage',
  '.vscode-dark .bp-lineage',
  'html[theme="dark"] .bp-lineage'
].join(', ');
/** A page that says nothing is as whoever reads it prefers. */
const SAYS_NOTHING = ':root:not([theme], :has([data-jp-theme-light], .vscode-light)) .bp-lineage';

const light = `${variables(LIGHT)} color-scheme: light;`;
const dark = `${variables(DARK)} color-scheme: dark;`;

export const STYLES = [
  `.bp-lineage { ${light} }`,
  `@media (prefers-color-scheme: dark) { ${SAYS_NOTHING} { ${dark} } }`,
  `${IS_DARK} { ${dark} }`,
  lineage,
  around,
  desk
].join('\n');

const MARK = 'style[data-branchpoint="lineage"]';
const styled = new WeakSet<Node>();

/** Have the styles in the page, or in the shadow root, that a node is in. */
export function ensureStyles(node: Node): void {
  const root = node.getRootNode();
  const place = root instanceof ShadowRoot ? root : document.head;
  if (styled.has(place)) {
    return;
  }
  styled.add(place);
  // Each widget runs a copy of this module of its own; another version may be there as well.
  if (![...place.querySelectorAll(MARK)].some(each => each.textContent === STYLES)) {
    const style = document.createElement('style');
    style.dataset['branchpoint'] = 'lineage';
    style.textContent = STYLES;
    place.append(style);
  }
}
