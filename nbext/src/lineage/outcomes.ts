/** What became of what was asked for, in one sentence. Pure. */

import type { Action } from './facts';
import * as say from './formats';

type Facts = Record<string, unknown>;

/** Kinds of checkpoints that a branch is saved as when it comes to rest: nothing came after. */
const AT_REST: ReadonlySet<string> = new Set(['paused', 'parked']);

/** What is said once an action is done; `done` is what the session answered. */
export function outcome(action: Action, done: Facts): string {
  const took = typeof done['total_ms'] === 'number' ? ` in ${say.duration(done['total_ms'])}` : '';
  switch (action.op) {
    case 'checkpoint':
      return `Saved as ${text(done, 'label') || action.label || 'a checkpoint'}${took}.`;
    case 'fork':
      return forked(done, took);
    case 'rollback': {
      const safety = text(fact(done, 'safety'), 'label');
      const kept = safety ? ` What was left is saved as ${safety}.` : '';
      return `Back at ${text(fact(done, 'checkpoint'), 'label') || 'the checkpoint'}${took}.${kept}`;
    }
    case 'switch':
      return `The notebook continues as ${action.name}.`;
    case 'keep': {
      const parked = names(done, 'parked');
      const others = parked.length > 0 ? ` Parked: ${parked.join(', ')}.` : '';
      return [`The notebook continues as ${action.name}${took}.${others}`, ...unparked(done)].join(
        ' '
      );
    }
    case 'drop':
      return `Dropped: ${action.names.join(', ')}. Their checkpoints stay.`;
    case 'pause': {
      const freed = done['freed_bytes'];
      const given = typeof freed === 'number' ? `, ${say.size(freed)} given back` : '';
      return `${named(done, action.name)} is paused${given}.`;
    }
    case 'resume':
      return `${named(done, action.name)} carries on${took}${fromWhere(fact(done, 'checkpoint'))}.`;
    case 'pin':
      return action.pinned ? 'Pinned: it stays whatever else goes.' : 'No longer pinned.';
    case 'annotate':
      return action.label === undefined ? 'The note is kept.' : `It is ${action.label} now.`;
  }
}

function forked(done: Facts, took: string): string {
  const made = names(done, 'branches');
  const failed = list(done, 'failures').map(each => {
    return `${text(each, 'name')} did not come up: ${text(each, 'message')} ${text(each, 'hint')}`;
  });
  const came = made.length > 0 ? [`Forked${took}: ${made.join(', ')}.`] : [];
  return [...came, ...failed].join(' ').trim() || `Forked${took}.`;
}

function unparked(done: Facts): string[] {
  return list(done, 'failures').map(each => {
    return `${text(each, 'name')} could not be parked and runs on: ${text(each, 'message')}.`;
  });
}

function named(done: Facts, name: string | undefined): string {
  return text(fact(done, 'branch'), 'name') || name || 'The branch';
}

function names(done: Facts, key: string): string[] {
  return list(done, key)
    .map(each => text(each, 'name'))
    .filter(Boolean);
}

function list(done: Facts, key: string): Facts[] {
  const value = done[key];
  return Array.isArray(value) ? value.filter((each): each is Facts => isFacts(each)) : [];
}

function fact(done: Facts, key: string): Facts {
  const value = done[key];
  return isFacts(value) ? value : {};
}

function text(done: Facts, key: string): string {
  const value = done[key];
  return typeof value === 'string' ? value : '';
}

function isFacts(value: unknown): value is Facts {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A branch that was lost is back where it was saved last, which is not where it was. */
function fromWhere(checkpoint: Facts): string {
  const label = text(checkpoint, 'label');
  return label === '' || AT_REST.has(text(checkpoint, 'kind'))
    ? ''
    : `, from ${label}: what came after that is lost`;
}
