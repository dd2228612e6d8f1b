/** Ends the kernel of a notebook that was closed while that was still being started. */
import type { Session } from '@jupyterlab/services';

/** In milliseconds. A kernel that is not there by then never will be. */
const LONGEST = 60_000;

type Sessions = Pick<Session.IManager, 'running' | 'runningChanged' | 'shutdown'>;

/** `isOpen` tells whether a notebook is at that path again, whose kernel it is then. */
export function endOnceThere(sessions: Sessions, path: string, isOpen: () => boolean): void {
  const leave = (): void => {
    window.clearTimeout(timer);
    sessions.runningChanged.disconnect(look);
  };
  const look = (): void => {
    const found = [...sessions.running()].find(session => session.path === path);
    if (found === undefined && !isOpen()) {
      return;
    }
    leave();
    if (found !== undefined && !isOpen()) {
      // One that has ended meanwhile is no more, as was wanted.
      void sessions.shutdown(found.id).catch(() => {});
    }
  };
  const timer = window.setTimeout(leave, LONGEST);
  sessions.runningChanged.connect(look);
  look();
}
