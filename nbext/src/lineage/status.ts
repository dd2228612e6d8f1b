/** The line below the tree: what is being done now and for how long, or what was done so far. */

import type { LineageView } from './facts';
import type { Pending } from './doing';
import { el, Written } from './dom';
import * as say from './formats';

const TICK_MS = 200;

/** Something under way, and since when by this page's own clock. */
interface Running {
  words: string;
  since: number;
}

export class Status {
  readonly element = el('div', 'bp-status');
  private readonly spinner = new Written(el('span', 'bp-spinner'));
  private readonly words = new Written(el('span', 'bp-status-words'));
  private readonly clock = new Written(el('span', 'bp-clock'));
  private running = new Map<string, Running>();
  private rest = '';
  private shownAt: number | null = null;
  private timer: ReturnType<typeof setInterval> | null = null;

  constructor() {
    this.element.append(this.spinner.node, this.words.node, this.clock.node);
  }

  /** `pending` is what this page asked for itself, which the session may not tell of yet. */
  show(view: LineageView, pending: readonly Pending[]): void {
    const now = Date.now();
    const running = new Map<string, Running>();
    for (const { op, branch, since } of view.under_way) {
      const key = `${op} ${branch}`;
      running.set(
        key,
        this.running.get(key) ?? { words: doing(op, branch), since: this.begun(since, now) }
      );
    }
    const told = new Set(view.under_way.map(({ op }) => op));
    for (const { op, branch, since } of pending) {
      if (!told.has(op)) {
        running.set(`${op} ${branch}`, { words: doing(op, branch), since });
      }
    }
    this.running = running;
    this.rest = say.summary(view.operations);
    this.shownAt = now;
    this.draw();
    this.tickWhile(running.size > 0);
  }

  dispose(): void {
    this.tickWhile(false);
  }

  /** When something began by our clock: the host's may be another, and go wrong. */
  private begun(since: string, now: number): number {
    const theirs = new Date(since).getTime();
    const earliest = this.shownAt ?? -Infinity;
    return Number.isNaN(theirs) ? now : Math.min(now, Math.max(theirs, earliest));
  }

  private draw(): void {
    const first = [...this.running.values()][0];
    this.spinner.attribute('class', first === undefined ? 'bp-resting' : 'bp-spinner');
    if (first === undefined) {
      this.words.text(this.rest);
      this.words.attribute('title', this.rest);
      this.clock.text('');
      return;
    }
    const more = this.running.size > 1 ? ` and ${this.running.size - 1} more` : '';
    this.words.text(first.words + more);
    this.words.attribute('title', [...this.running.values()].map(({ words }) => words).join('\n'));
    this.clock.text(say.elapsed(Date.now() - first.since));
  }

  private tickWhile(runs: boolean): void {
    if (runs && this.timer === null) {
      this.timer = setInterval(() => this.draw(), TICK_MS);
    } else if (!runs && this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    }
  }
}

const ASIDE: Record<string, string> = {
  preview: 'looking at what a rollback undoes',
  diff: 'comparing with',
  pin: 'pinning in',
  annotate: 'writing to',
  open: 'opening as a notebook:',
  compare: 'opening side by side with',
  restore: 'restoring the text of'
};

function doing(op: string, branch: string): string {
  const aside = ASIDE[op];
  return aside === undefined ? say.doing(op, branch) : `${aside} ${branch}`.trim();
}
