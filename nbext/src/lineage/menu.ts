/** The menu of a row: what can be done with it, by pointer and by keys. */

import type { Deed, Offer, Offers } from './actions';
import { el, focusedBeside, hide, showAt } from './dom';

export interface Chosen {
  deed: Deed;
  group: 'checkpoint' | 'branch';
}

export class Menu {
  readonly element = el('div', 'bp-menu');
  private back: (() => void) | null = null;

  constructor(private readonly onChoice: (chosen: Chosen) => void) {
    this.element.setAttribute('role', 'menu');
    this.element.hidden = true;
    this.element.addEventListener('keydown', event => this.onKey(event));
    this.element.addEventListener('click', event => {
      const chosen = (event.target as Element).closest<HTMLElement>('[role=menuitem]');
      if (chosen) {
        this.choose(chosen);
      }
    });
    this.element.addEventListener('focusout', event => {
      const to = event.relatedTarget;
      if (to instanceof Node && !this.element.contains(to)) {
        this.close(false);
      }
    });
  }

  get isOpen(): boolean {
    return !this.element.hidden;
  }

  /** Open at a place of the window; `back` gives the focus back. */
  open(title: string, offers: Offers, x: number, y: number, back: () => void): void {
    this.back = back;
    this.element.setAttribute('aria-label', title);
    const groups = [
      ...offers.checkpoint.map(offer => item(offer, 'checkpoint')),
      ...(offers.checkpoint.length > 0 && offers.branch.length > 0
        ? [separator(), el('div', 'bp-menu-title', offers.name)]
        : []),
      ...offers.branch.map(offer => item(offer, 'branch'))
    ];
    this.element.replaceChildren(el('div', 'bp-menu-title', title), ...groups);
    showAt(this.element, x, y);
    this.items()[0]?.focus();
  }

  close(givesBack = true): void {
    if (!this.isOpen) {
      return;
    }
    hide(this.element);
    this.element.replaceChildren();
    if (givesBack) {
      this.back?.();
    }
    this.back = null;
  }

  private items(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>('[role=menuitem]')];
  }

  private choose(chosen: HTMLElement): void {
    if (chosen.getAttribute('aria-disabled') === 'true') {
      return;
    }
    const { deed, group } = chosen.dataset;
    // The focus first: what is done next may take it on to a sheet.
    this.close();
    this.onChoice({ deed: deed as Deed, group: group as Chosen['group'] });
  }

  private onKey(event: KeyboardEvent): void {
    const items = this.items();
    const at = items.indexOf(focusedBeside(this.element) as HTMLElement);
    const to: Record<string, number> = {
      ArrowDown: (at + 1) % items.length,
      ArrowUp: (at - 1 + items.length) % items.length,
      Home: 0,
      End: items.length - 1
    };
    event.stopPropagation();
    const goes = to[event.key];
    if (goes !== undefined) {
      items[goes]?.focus();
    } else if (event.key === 'Escape' || event.key === 'Tab') {
      this.close();
    } else if ((event.key === 'Enter' || event.key === ' ') && items[at]) {
      this.choose(items[at]);
    } else if (event.key.length === 1) {
      const begins = event.key.toLowerCase();
      const after = [...items.slice(at + 1), ...items.slice(0, at + 1)];
      after.find(each => each.textContent?.toLowerCase().startsWith(begins))?.focus();
    } else {
      return;
    }
    event.preventDefault();
  }
}

function item(offer: Offer, group: Chosen['group']): HTMLElement {
  const node = el('div', 'bp-menu-item', offer.words);
  node.setAttribute('role', 'menuitem');
  node.tabIndex = -1;
  node.dataset['deed'] = offer.deed;
  node.dataset['group'] = group;
  node.title = offer.why;
  if (!offer.can) {
    node.setAttribute('aria-disabled', 'true');
    node.append(el('span', 'bp-menu-why', offer.why));
  }
  return node;
}

function separator(): HTMLElement {
  const node = el('div', 'bp-menu-line');
  node.setAttribute('role', 'separator');
  return node;
}
