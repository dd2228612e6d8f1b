/**
 * Asks a kernel that was restarted for the widget it had before: the page has the place where it is
 * shown still, and the new process knows of none until somebody asks.
 */
import type { WidgetModel } from './widget_service';

/** As `RETURN` in branchpoint_kernel/lineage_host.py. */
const TARGET = 'branchpoint.lineage';
const LOOK_EVERY_MS = 500;
/** A machine that comes up answers when it is there; what was asked may also have been lost. */
const ASK_EVERY_MS = 15_000;

/** What JupyterLab's widget manager has, and others may have; none of it is promised to widgets. */
interface Manager {
  readonly kernel?: { readonly status: string; readonly connectionStatus: string } | null;
  _create_comm?(target: string, id: string, data: object, metadata: object): Promise<Comm>;
}

/** Whether the kernel of a widget is there; a page that does not tell is taken at its best. */
export function reachOf(model: WidgetModel): 'there' | 'away' | 'ended' {
  const kernel = (model.widget_manager as Manager | undefined)?.kernel;
  if (kernel === undefined) {
    return 'there';
  }
  if (kernel === null || kernel.status === 'dead') {
    return 'ended';
  }
  return kernel.connectionStatus === 'connected' ? 'there' : 'away';
}

interface Comm {
  close(): unknown;
}

export class Return {
  private timer: ReturnType<typeof setInterval> | null = null;
  private askedAt = 0;

  /** Ask until it is stopped. */
  start(model: WidgetModel): void {
    const manager = model.widget_manager as Manager | undefined;
    if (this.timer === null && manager?._create_comm) {
      this.askedAt = 0;
      this.timer = setInterval(() => void this.look(manager), LOOK_EVERY_MS);
    }
  }

  stop(): void {
    if (this.timer !== null) {
      clearInterval(this.timer);
      this.timer = null;
    }
  }

  private async look(manager: Manager): Promise<void> {
    const { kernel } = manager;
    const isThere = kernel?.connectionStatus === 'connected' && /idle|busy/.test(kernel.status);
    if (!isThere || Date.now() - this.askedAt < ASK_EVERY_MS) {
      return;
    }
    this.askedAt = Date.now();
    try {
      const id = `lineage-${Math.random().toString(36).slice(2)}`;
      const comm = await manager._create_comm?.(TARGET, id, {}, {});
      comm?.close();
    } catch {
      // The kernel has gone again: it is asked when it is back.
      this.askedAt = 0;
    }
  }
}
