/** What is shown of a row while the pointer is on it: nothing that the details do not say too. */

import { el, hide, showAt } from './dom';

const WAIT_MS = 350;

export class Hover {
  readonly element = el('div', 'bp-hover');
  private timer: ReturnType<typeof setTimeout> | null = null;
  private key: string | null = null;

  constructor() {
    // The details say the same to who cannot see it.
    this.element.setAttribute('aria-hidden', 'true');
    this.element.hidden = true;
  }

  /** Show lines below a row after a while; `lines` is asked for only then. */
  over(key: string, row: Element, x: number, lines: () => string[]): void {
    if (this.key === key) {
      return;
    }
    this.away();
    this.key = key;
    this.timer = setTimeout(() => {
      this.element.replaceChildren(...lines().map(line => el('div', '', line)));
      const { bottom, top } = row.getBoundingClientRect();
      showAt(this.element, x + 12, bottom + 4, top - 4);
    }, WAIT_MS);
  }

  away(): boolean {
    if (this.timer !== null) {
      clearTimeout(this.timer);
    }
    this.timer = null;
    this.key = null;
    const was = !this.element.hidden;
    if (was) {
      hide(this.element);
    }
    return was;
  }
}
