/**
 * Where each checkpoint and each branch goes in the drawn tree. Pure.
 * The rule is that of branchpoint_vmruntime/lineage/layout.py, so that picture and tree agree.
 */

import type { BranchView, CheckpointView, LineageView } from './facts';

export type Subject =
  { kind: 'checkpoint'; checkpoint: CheckpointView } | { kind: 'tip'; branch: BranchView };

/** A checkpoint, or the tip of a branch, at its place: rows run down, lanes to the right. */
export interface Placed {
  key: string;
  subject: Subject;
  row: number;
  lane: number;
  parentRow: number | null;
}

/** Something still to be placed. */
interface Step {
  subject: Subject;
  lane: number;
  parentRow: number | null;
}

export function checkpointKey(id: string): string {
  return `c:${id}`;
}

export function tipKey(name: string): string {
  return `b:${name}`;
}

/** The branch that a subject is, or is of. */
export function branchOf(subject: Subject): string {
  return subject.kind === 'tip' ? subject.branch.facts.name : subject.checkpoint.facts.branch;
}

/** Whether something is the tip that the notebook is on. */
export function isHere(subject: Subject, view: LineageView): boolean {
  return subject.kind === 'tip' && subject.branch.facts.name === view.current;
}

/** Whether the notebook went back to a checkpoint that there was already, as a rollback does. */
export function wentBack(before: LineageView, view: LineageView): boolean {
  const [was, head] = [headOf(before), headOf(view)];
  return head !== was && before.checkpoints.some(({ facts }) => facts.id === head);
}

function headOf({ branches, current }: LineageView): string | undefined {
  return branches.find(({ facts }) => facts.name === current)?.facts.head;
}

export function isDropped(subject: Subject): boolean {
  return subject.kind === 'tip' && subject.branch.facts.state === 'dropped';
}

function keyOf(subject: Subject): string {
  return subject.kind === 'tip'
    ? tipKey(subject.branch.facts.name)
    : checkpointKey(subject.checkpoint.facts.id);
}

/**
 * Every checkpoint and every branch tip once, in the order of their rows.
 *
 * Each has a row of its own. A line of work goes straight down; what leaves it comes first, one
 * lane to the right, so that no two edges cross. A branch whose head is gone is left out; a
 * checkpoint whose parent is gone is drawn as the beginning of a line.
 */
export function place(
  checkpoints: readonly CheckpointView[],
  branches: readonly BranchView[]
): Placed[] {
  const known = new Map(checkpoints.map(each => [each.facts.id, each]));
  const nextOnes = childrenOf(known, branches);
  const below = pathsOf(known, branches);
  const roots = [...known.values()].filter(
    ({ facts }) => !facts.parent || !known.has(facts.parent)
  );
  // A stack: what is put on it last is placed first.
  const waiting: Step[] = [];
  for (const checkpoint of roots) {
    waiting.unshift({ subject: { kind: 'checkpoint', checkpoint }, lane: 0, parentRow: null });
  }
  const placed: Placed[] = [];
  for (let step = waiting.pop(); step !== undefined; step = waiting.pop()) {
    const { subject, lane, parentRow } = step;
    const row = placed.length;
    placed.push({ key: keyOf(subject), subject, row, lane, parentRow });
    if (subject.kind === 'tip') {
      continue;
    }
    const after = nextOnes.get(subject.checkpoint.facts.id) ?? [];
    const straight = straightOn(subject.checkpoint, after, below);
    if (straight === undefined) {
      continue;
    }
    waiting.push({ subject: straight, lane, parentRow: row });
    for (let at = after.length - 1; at >= 0; at -= 1) {
      const each = after[at];
      if (each !== undefined && each !== straight) {
        waiting.push({ subject: each, lane: lane + 1, parentRow: row });
      }
    }
  }
  return placed;
}

/** What comes directly after each checkpoint: checkpoints, oldest first, then branches' tips. */
function childrenOf(
  known: ReadonlyMap<string, CheckpointView>,
  branches: readonly BranchView[]
): Map<string, Subject[]> {
  const found = new Map<string, Subject[]>();
  const add = (over: string, subject: Subject): void => {
    const there = found.get(over);
    if (there === undefined) {
      found.set(over, [subject]);
    } else {
      there.push(subject);
    }
  };
  for (const checkpoint of known.values()) {
    if (checkpoint.facts.parent) {
      add(checkpoint.facts.parent, { kind: 'checkpoint', checkpoint });
    }
  }
  for (const branch of branches) {
    add(branch.facts.head, { kind: 'tip', branch });
  }
  return found;
}

/** Of each branch, the checkpoints from which its tip is reached. */
function pathsOf(
  known: ReadonlyMap<string, CheckpointView>,
  branches: readonly BranchView[]
): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const { facts } of branches) {
    const path = new Set<string>();
    let at = known.get(facts.head);
    while (at !== undefined && !path.has(at.facts.id)) {
      path.add(at.facts.id);
      at = at.facts.parent ? known.get(at.facts.parent) : undefined;
    }
    found.set(facts.name, path);
  }
  return found;
}

/** What continues the line: its branch's present, or else its past, or else the first. */
function straightOn(
  checkpoint: CheckpointView,
  after: readonly Subject[],
  below: ReadonlyMap<string, ReadonlySet<string>>
): Subject | undefined {
  const own = checkpoint.facts.branch;
  const rank = (subject: Subject): number => {
    if (subject.kind === 'tip') {
      return subject.branch.facts.name === own ? 2 : 0;
    }
    const { branch, id } = subject.checkpoint.facts;
    if (branch !== own) {
      return 0;
    }
    return below.get(own)?.has(id) ? 2 : 1;
  };
  let best: Subject | undefined;
  let bestRank = -1;
  for (const subject of after) {
    const its = rank(subject);
    if (its > bestRank) {
      best = subject;
      bestRank = its;
    }
  }
  return best;
}
