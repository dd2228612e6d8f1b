/** Finding rows by what is said of them. Pure. */

import { kindNamed, stateWords } from './formats';
import type { Subject } from './layout';

/** Whether all words of a query are found in a label, note, branch, kind, state or cell. */
export function matcher(query: string): ((subject: Subject) => boolean) | null {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) {
    return null;
  }
  return subject => {
    const said = saidOf(subject);
    return words.every(word => said.includes(word));
  };
}

// A subject lives as long as the view it came with.
const remembered = new WeakMap<Subject, string>();

function saidOf(subject: Subject): string {
  let said = remembered.get(subject);
  if (said === undefined) {
    said = parts(subject).join('\n').toLowerCase();
    remembered.set(subject, said);
  }
  return said;
}

function parts(subject: Subject): string[] {
  if (subject.kind === 'tip') {
    const { facts, lent_to } = subject.branch;
    return [facts.name, stateWords(facts.state), lent_to];
  }
  const { facts, source, cell } = subject.checkpoint;
  const place = cell === null ? '' : `In[${cell.count}]`;
  const pinned = facts.pinned ? 'pinned' : '';
  const kind = kindNamed(facts.kind);
  return [facts.label, facts.id, facts.note, facts.branch, kind, source, place, pinned];
}
