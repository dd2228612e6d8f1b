/**
 * Has JupyterLab look whether a kernel is still there. By itself it does so every ten seconds, and
 * up to five minutes after a server was away; who has a session open is told at once.
 */
import type { IDisposable } from '@lumino/disposable';

/** In milliseconds, between two looks: a server has a kernel for a moment after that has ended. */
const SOON = 500;
const LATEST = 8000;

export class KernelCheck implements IDisposable {
  isDisposed = false;
  private isNeeded = false;
  private wait = SOON;
  private timer: number | undefined;

  constructor(private readonly look: () => Promise<void>) {
    document.addEventListener('visibilitychange', this.begin);
  }

  /** Look now, and again and again as long as there is a reason to. */
  set needed(isNeeded: boolean) {
    if (isNeeded !== this.isNeeded) {
      this.isNeeded = isNeeded;
      this.begin();
    }
  }

  dispose(): void {
    this.isDisposed = true;
    this.isNeeded = false;
    window.clearTimeout(this.timer);
    document.removeEventListener('visibilitychange', this.begin);
  }

  /** Also for whoever comes to look: JupyterLab asks nothing for a page that is out of sight. */
  private readonly begin = (): void => {
    this.wait = SOON;
    this.lookIn(0);
  };

  private lookIn(milliseconds: number): void {
    window.clearTimeout(this.timer);
    if (this.isNeeded) {
      this.timer = window.setTimeout(() => void this.lookNow(), milliseconds);
    }
  }

  private async lookNow(): Promise<void> {
    this.lookIn(this.wait);
    this.wait = Math.min(this.wait * 2, LATEST);
    // A server that does not answer is asked again.
    await this.look().catch(() => {});
  }
}
