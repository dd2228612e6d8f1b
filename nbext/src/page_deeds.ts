/**
 * Where a page of JupyterLab and the widgets in it meet, each of which runs a script of its own:
 * by session, what the page can do. Knows neither, as the widget's script has to stay small.
 */
import type { PageDeeds } from './lineage/facts';

interface Meeting {
  readonly deeds: Map<string, PageDeeds>;
  /** Whoever draws something of a session, and wants to hear that this is another for it. */
  readonly hearing: Set<(session: string) => void>;
}

/** Either may be there first. */
const MEETING = Symbol.for('branchpoint.lineage.page');

function meeting(): Meeting {
  const page = globalThis as unknown as Record<symbol, Meeting>;
  return (page[MEETING] ??= { deeds: new Map(), hearing: new Set() });
}

/** What the page can do for a session; undefined where it does not follow a notebook of it. */
export function deedsFor(session: string): PageDeeds | undefined {
  return meeting().deeds.get(session);
}

/** Hear when what the page can do for a session comes or goes, until what is returned is called. */
export function onDeeds(session: string, heard: () => void): () => void {
  const { hearing } = meeting();
  const hear = (changed: string): void => {
    if (changed === session) {
      heard();
    }
  };
  hearing.add(hear);
  return () => void hearing.delete(hear);
}

/** Say for which sessions the page can do something; for all others it can no longer. */
export function offerDeeds(
  sessions: readonly string[],
  deedsOf: (session: string) => PageDeeds
): void {
  const { deeds, hearing } = meeting();
  const wanted = new Set(sessions);
  const gone = [...deeds.keys()].filter(session => !wanted.has(session));
  const come = [...wanted].filter(session => !deeds.has(session));
  gone.forEach(session => deeds.delete(session));
  come.forEach(session => deeds.set(session, deedsOf(session)));
  for (const session of [...gone, ...come]) {
    hearing.forEach(hear => hear(session));
  }
}
