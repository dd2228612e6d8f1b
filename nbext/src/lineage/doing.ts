/** Things that were asked for and are not done yet; nothing is asked for twice at once. */

import type { LineageService, Refusal } from './facts';

export interface Pending {
  op: string;
  branch: string;
  since: number;
}

/** What went wrong, in words, whatever it was that was thrown. */
export function refusalOf(reason: unknown): Refusal {
  if (typeof reason === 'object' && reason !== null) {
    const { message, hint } = reason as Partial<Refusal>;
    if (typeof message === 'string' && message) {
      return { message, hint: typeof hint === 'string' ? hint : '' };
    }
  }
  const message = typeof reason === 'string' && reason ? reason : 'it did not work';
  return { message, hint: 'try again; if it happens again, reload the page' };
}

export class Doing {
  private readonly pending = new Map<string, Pending>();
  private isDisposed = false;

  constructor(
    readonly service: LineageService,
    private readonly changed: () => void
  ) {}

  list(): Pending[] {
    return [...this.pending.values()];
  }

  has(key: string): boolean {
    return this.pending.has(key);
  }

  /** Do something under a key; null if that is being done already, or nobody waits any more. */
  async once<T>(
    key: string,
    about: { op: string; branch: string },
    work: () => Promise<T>
  ): Promise<{ done: T } | { refusal: Refusal } | null> {
    if (this.pending.has(key)) {
      return null;
    }
    this.pending.set(key, { ...about, since: Date.now() });
    this.changed();
    try {
      const done = await work();
      return this.isDisposed ? null : { done };
    } catch (reason) {
      return this.isDisposed ? null : { refusal: refusalOf(reason) };
    } finally {
      this.pending.delete(key);
      if (!this.isDisposed) {
        this.changed();
      }
    }
  }

  dispose(): void {
    this.isDisposed = true;
    this.pending.clear();
  }
}
