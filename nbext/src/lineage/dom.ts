/** Elements made in few words, and texts that are written only when they change. */

const SVG = 'http://www.w3.org/2000/svg';

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = '',
  text = ''
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  if (className) {
    node.className = className;
  }
  if (text) {
    node.textContent = text;
  }
  return node;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  className = ''
): SVGElementTagNameMap[K] {
  const node = document.createElementNS(SVG, tag);
  if (className) {
    node.setAttribute('class', className);
  }
  return node;
}

/** A button that says what it is for; `data-do` is what a click on it means. */
export function button(words: string, does: string, className = 'bp-button'): HTMLButtonElement {
  const node = el('button', className, words);
  node.type = 'button';
  node.dataset['do'] = does;
  return node;
}

const ABSENT = '\u0000';

/** Remembers what it wrote to an element, which is cheaper than asking the page. */
export class Written {
  readonly node: Element;
  private readonly values = new Map<string, string>();

  constructor(node: Element | undefined) {
    this.node = node ?? document.createElement('span');
  }

  text(value: string): void {
    if (this.isNew('', value)) {
      this.node.textContent = value;
    }
  }

  /** Set an attribute; null takes it away. */
  attribute(name: string, value: string | null): void {
    const wasThere = this.values.has(name);
    if (!this.isNew(name, value ?? ABSENT)) {
      return;
    }
    if (value === null) {
      if (wasThere) {
        this.node.removeAttribute(name);
      }
    } else {
      this.node.setAttribute(name, value);
    }
  }

  private isNew(name: string, value: string): boolean {
    if (this.values.get(name) === value) {
      return false;
    }
    this.values.set(name, value);
    return true;
  }
}

/** Put the children of a node in an order, moving only those that are not where they belong. */
export function arrange(parent: Element, wanted: readonly Element[]): void {
  const keep = new Set(wanted);
  for (const child of Array.from(parent.children)) {
    if (!keep.has(child)) {
      child.remove();
    }
  }
  let at: Element | null = parent.firstElementChild;
  for (const child of wanted) {
    if (child === at) {
      at = at.nextElementSibling;
    } else {
      parent.insertBefore(child, at);
    }
  }
}

/** Show something above the page at a place of the window, within its edges. */
export function showAt(node: HTMLElement, x: number, y: number, above = y): void {
  // What is in the top layer is neither cut off by a cell's output nor moved by a transform.
  if (typeof node.showPopover === 'function') {
    node.popover = 'manual';
    if (!node.matches(':popover-open')) {
      node.showPopover();
    }
  }
  node.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = node;
  const left = Math.max(4, Math.min(x, window.innerWidth - width - 4));
  const top = y + height + 4 > window.innerHeight ? Math.max(4, above - height) : y;
  node.style.left = `${left}px`;
  node.style.top = `${top}px`;
}

export function hide(node: HTMLElement): void {
  if (typeof node.hidePopover === 'function' && node.matches(':popover-open')) {
    node.hidePopover();
  }
  node.hidden = true;
}

/** What has the focus in the page, or in the shadow root, that a node is in. */
export function focusedBeside(node: Node): Element | null {
  const root = node.getRootNode();
  return root instanceof Document || root instanceof ShadowRoot ? root.activeElement : null;
}

/**
 * Keep what is typed in a node from the page around it: in JupyterLab D twice would delete the cell,
 * and Enter edit it instead of ending a line.
 */
export function keepKeys(node: HTMLElement, signal: AbortSignal): void {
  // Looked for at what has the focus first, where the page's own selectors match already.
  const mark = (event: Event): void => {
    (event.target as HTMLElement).dataset['lmSuppressShortcuts'] = 'true';
  };
  node.addEventListener('focusin', mark, { signal });
  for (const name of ['keydown', 'keypress', 'keyup']) {
    node.addEventListener(name, event => event.stopPropagation(), { signal });
  }
}
