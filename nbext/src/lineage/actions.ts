/** What can be done with what is selected, and what cannot be done now and why. Pure. */

import type { BranchView, CheckpointView, LineageService, LineageView } from './facts';
import { fileOf } from './formats';
import type { Subject } from './layout';

export type Deed =
  | 'rollback'
  | 'fork'
  | 'checkpoint'
  | 'diff'
  | 'rename'
  | 'note'
  | 'pin'
  | 'unpin'
  | 'restore'
  | 'switch'
  | 'keep'
  | 'pause'
  | 'resume'
  | 'drop'
  | 'open'
  | 'compare';

/** Something that may be done; `why` says why not now, or what it does. */
export interface Offer {
  deed: Deed;
  words: string;
  can: boolean;
  why: string;
}

/** What is offered, in groups: of the checkpoint, and of its branch. */
export interface Offers {
  checkpoint: readonly Offer[];
  branch: readonly Offer[];
  /** Which branch that is. */
  name: string;
}

type Can = Pick<LineageService, 'page'>;

const CLOSED = 'The session is closed: open its notebook and start its kernel first';
const BLIND = "Only its notebook's kernel looks into machines: it does not run";

export function offers(subject: Subject, view: LineageView, service: Can): Offers {
  const closed = view.owner === null ? CLOSED : '';
  if (subject.kind === 'tip') {
    const branch = ofTip(subject.branch, view, service, closed);
    return { checkpoint: [], branch, name: subject.branch.facts.name };
  }
  const { checkpoint } = subject;
  const branch = view.branches.find(({ facts }) => facts.name === checkpoint.facts.branch);
  return {
    checkpoint: ofCheckpoint(checkpoint, view, service, closed),
    branch: branch === undefined ? [] : ofBranch(branch, view, service, closed),
    name: checkpoint.facts.branch
  };
}

function offer(deed: Deed, words: string, does: string, whyNot: string): Offer {
  return { deed, words, can: !whyNot, why: whyNot || does };
}

function ofCheckpoint(
  { facts }: CheckpointView,
  view: LineageView,
  service: Can,
  closed: string
): Offer[] {
  const base = facts.kind === 'base' ? 'A fresh machine is shared by all sessions' : '';
  const current = view.current ?? 'the notebook';
  const list = [
    offer('rollback', 'Roll back\u2026', `Take ${current} back here; asks first`, closed),
    offer('fork', 'Fork\u2026', 'New branches from here', closed),
    offer('diff', 'Diff with now\u2026', `What ${current} has that this has not`, blind(view)),
    offer('rename', 'Rename\u2026', 'Give it another label', closed || base),
    offer('note', 'Note\u2026', 'Write something about it', closed || base),
    facts.pinned
      ? offer('unpin', 'Unpin', 'It may be collected again', closed || base)
      : offer('pin', 'Pin', 'Keep it whatever else is collected', closed || base)
  ];
  if (service.page) {
    list.push(offer('restore', 'Restore text\u2026', "The notebook's cells as they were", ''));
  }
  return list;
}

function ofTip(branch: BranchView, view: LineageView, service: Can, closed: string): Offer[] {
  const { name, state, head_label } = branch.facts;
  const asleep =
    state === 'live' || state === 'paused'
      ? ''
      : gone(branch) || `It is ${state} and has no machine: resume it first`;
  const here = name === view.current;
  const list = [
    offer('checkpoint', 'Checkpoint\u2026', 'Save this moment', closed || asleep),
    offer('fork', 'Fork\u2026', asleep ? `New branches from ${head_label}` : 'From now', closed)
  ];
  if (here) {
    list.push(offer('rollback', 'Roll back\u2026', `Back to ${head_label}; asks first`, closed));
  }
  return [...list, ...ofBranch(branch, view, service, closed)];
}

function ofBranch(branch: BranchView, view: LineageView, service: Can, closed: string): Offer[] {
  const { name, state, busy } = branch.facts;
  const here = name === view.current;
  const lost = gone(branch);
  const already = here ? 'The notebook is on it already' : '';
  const runs = busy ? 'Code runs in it: wait for it, or interrupt it' : '';
  // Another notebook may have it: it can be looked at all the same, and that notebook be shown.
  const notSeen = here ? 'The notebook is on it' : state === 'lent' ? '' : lost;
  const noOther = closed || notSeen;
  const list = [
    offer('switch', 'Switch', `The notebook continues as ${name}`, closed || already || lost),
    offer('keep', 'Keep', `Continue as ${name} and park all others`, closed || lost),
    state === 'live' || lost
      ? offer('pause', 'Pause', 'Give its memory and processor back', closed || lost || runs)
      : offer('resume', 'Resume', 'Give it a machine again', closed),
    offer('diff', 'Diff with now\u2026', 'Files, variables and packages', blind(view) || notSeen)
  ];
  if (service.page) {
    const why = noOther || (state === 'lent' ? '' : runs);
    list.push(
      offer('open', 'Open as notebook', 'A notebook of its own continues it', why),
      offer('compare', 'Side by side', 'Both notebooks beside each other', noOther)
    );
  }
  const current = here ? 'The notebook is on it: switch to another branch first' : '';
  list.push(offer('drop', 'Drop\u2026', 'Give it up; asks first', closed || current || lost));
  return list;
}

/** Why nothing can be compared with what is now. */
function blind(view: LineageView): string {
  return view.owner === null ? CLOSED : view.owner === 'kernel' ? '' : BLIND;
}

/** Why nothing can be done with a branch that is no longer this session's to continue. */
function gone({ facts, lent_to }: BranchView): string {
  if (facts.state === 'dropped') {
    return 'It was dropped: fork it anew from one of its checkpoints';
  }
  if (facts.state === 'lent') {
    const where = lent_to ? `open as ${fileOf(lent_to)}` : 'lent to another notebook';
    return `It is ${where}: close that notebook to have it back`;
  }
  return '';
}

/** The same without what is being done to that branch already. */
export function withoutDoubles(
  { checkpoint, branch, name }: Offers,
  pending: readonly { op: string; branch: string }[],
  about: string
): Offers {
  const running = new Set(pending.filter(each => each.branch === about).map(({ op }) => op));
  const without = (list: readonly Offer[]): Offer[] =>
    list.map(each =>
      running.has(each.deed) && !each.words.endsWith('\u2026')
        ? { ...each, can: false, why: 'It is being done' }
        : each
    );
  return { checkpoint: without(checkpoint), branch: without(branch), name };
}
