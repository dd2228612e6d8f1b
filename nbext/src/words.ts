/** A session in the few words of a head line and a status bar. Pure. */
import type { BranchFacts, LineageView } from './lineage/facts';
import { doing, size, stateWords } from './lineage/formats';

/** The branch a session is on, null where it is on none, as a closed one can be. */
export function currentBranch(view: LineageView): BranchFacts | null {
  const found = view.branches.find(branch => branch.facts.name === view.current);
  return found?.facts ?? null;
}

/** What the machine has of host memory: its own, and what it shares with others. */
export function memoryWords({ own_bytes: own, shared_bytes: shared }: BranchFacts): string {
  if (own === null) {
    return 'no machine';
  }
  return shared === null ? `${size(own)} own` : `${size(own)} own, ${size(shared)} shared`;
}

/** What a session does now, or how it rests. */
export function sessionState(view: LineageView): string {
  const [first] = view.under_way;
  if (first !== undefined) {
    return doing(first.op, first.branch);
  }
  if (view.owner === null) {
    return 'closed';
  }
  const branch = currentBranch(view);
  if (branch === null) {
    return 'on no branch';
  }
  if (branch.state !== 'live') {
    return branch.state;
  }
  return branch.busy ? 'running' : 'idle';
}

/** The same, in a sentence for whoever hears it or hovers over it. */
export function stateSentence(view: LineageView): string {
  const branch = currentBranch(view);
  if (branch === null) {
    return `Branchpoint: ${sessionState(view)}`;
  }
  const state = branch.state === 'live' ? sessionState(view) : stateWords(branch.state);
  return `Branch ${branch.name}: ${state}. Machine memory: ${memoryWords(branch)}.`;
}

/**
 * What gives a branch back that is open as a notebook. Where each notebook is a page of its own, as
 * in Notebook 7, closing that ends no kernel.
 */
export function wayBack(isPage: boolean): string {
  const deed = isPage ? 'Choose File, Close and Shut Down Notebook there' : 'Close it';
  return `${deed}, and the branch is here again.`;
}
