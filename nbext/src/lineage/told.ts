/**
 * HTML of the kernel's own making, let through piece by piece: what kernel/.../rendering.py writes
 * and nothing else. Labels and file names are in it, which somebody else may have chosen.
 */

const TAGS = new Set(['div', 'span', 'b', 'br', 'pre', 'code', 'table', 'tbody', 'tr', 'th', 'td']);
const DROPPED_WHOLE = new Set(['script', 'style', 'template', 'iframe', 'object', 'svg', 'math']);
const PROPERTIES = new Set([
  'white-space',
  'overflow-wrap',
  'padding-left',
  'text-indent',
  'text-align',
  'opacity',
  'line-height'
]);
const PLAIN_VALUE = /^[\w\s.%-]+$/;
const MOST_DEEP = 20;

/** The rendering as nodes that can do nothing but be read. */
export function rendered(html: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  // A document of its own: nothing of it is loaded or run.
  const source = new DOMParser().parseFromString(html, 'text/html');
  copy(source.body, fragment, 0);
  return fragment;
}

function copy(from: Node, to: Node, depth: number): void {
  for (const child of from.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) {
      to.appendChild(document.createTextNode(child.nodeValue ?? ''));
    } else if (child.nodeType === Node.ELEMENT_NODE && depth < MOST_DEEP) {
      copyElement(child as Element, to, depth);
    }
  }
}

function copyElement(from: Element, to: Node, depth: number): void {
  const tag = from.localName;
  if (DROPPED_WHOLE.has(tag)) {
    return;
  }
  if (!TAGS.has(tag)) {
    // What is unknown goes, what it says stays.
    copy(from, to, depth + 1);
    return;
  }
  const made = document.createElement(tag);
  const style = from.getAttribute('style');
  if (style !== null) {
    copyStyle(style, made);
  }
  copy(from, made, depth + 1);
  to.appendChild(made);
}

function copyStyle(style: string, to: HTMLElement): void {
  for (const declaration of style.split(';')) {
    const colon = declaration.indexOf(':');
    const name = declaration.slice(0, colon).trim().toLowerCase();
    const value = declaration.slice(colon + 1).trim();
    // Half-transparent words would be too faint on our paper: they are marked as quiet instead.
    if (name === 'opacity') {
      to.classList.add('bp-quiet');
    } else if (PROPERTIES.has(name) && PLAIN_VALUE.test(value)) {
      to.style.setProperty(name, value);
    }
  }
}
