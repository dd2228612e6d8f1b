/** Has the file of a notebook be what its page shows, before somebody reads or changes it. Pure. */
import type { ISignal } from '@lumino/signaling';

/** A document in a page; JupyterLab's contexts are. */
export interface Document {
  readonly model: { dirty: boolean; readonly contentChanged: ISignal<unknown, void> };
  readonly contentsModel: { readonly writable?: boolean } | null;
  readonly saveState: ISignal<unknown, string>;
  save(): Promise<void>;
}

/** In milliseconds: a request that is never answered must not keep all others back. */
const LONGEST = 60_000;

/** A document is one for all the views of it. */
const inTurn = new WeakSet<Document>();

/**
 * Have the saves of a document follow one another, and what changes during one count as unsaved.
 *
 * JupyterLab (4.6) lets an autosave run into another save and takes the file it has just written
 * for a stranger's; and the end of each makes the document clean, though its content was taken at
 * the beginning.
 */
export function saveInTurn(document: Document): void {
  if (inTurn.has(document)) {
    return;
  }
  inTurn.add(document);
  const save = document.save.bind(document);
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | null = null;
  const begin = (): Promise<void> => {
    next = null;
    const turn = save();
    last = turn.catch(() => undefined);
    return turn;
  };
  // One that has not begun yet will have all there is when it does.
  document.save = () => (next ??= Promise.race([last, elapsed(LONGEST)]).then(begin));

  let changed = false;
  document.model.contentChanged.connect(() => {
    changed = true;
  });
  document.saveState.connect((_, state) => {
    if (state === 'started') {
      // Others hear of it too, and add to the content before it is taken: widgets their state.
      queueMicrotask(() => {
        changed = false;
      });
    } else if (state === 'completed' && changed) {
      document.model.dirty = true;
    }
  });
}

/**
 * Whether to go on: the file has all there was, or `ask` was answered that it may lack some.
 * Somebody who cannot save is told so by JupyterLab already.
 */
export async function savedFirst(
  document: Document,
  ask: () => Promise<boolean>
): Promise<boolean> {
  if (!document.model.dirty) {
    return true;
  }
  if (document.contentsModel?.writable === false) {
    return ask();
  }
  // Refused in a dialog of JupyterLab's, it may end without an error.
  let written = false;
  const note = (_: unknown, state: string): void => {
    written = state === 'completed';
  };
  document.saveState.connect(note);
  try {
    await document.save();
  } catch {
    written = false;
  } finally {
    document.saveState.disconnect(note);
  }
  return written || ask();
}

function elapsed(milliseconds: number): Promise<void> {
  return new Promise(resolve => {
    setTimeout(resolve, milliseconds);
  });
}
