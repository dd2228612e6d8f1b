/** What hovering over a row shows: its details in short. Pure. */

import type { BranchView, LineageView } from './facts';
import type { Shown } from './folding';
import * as say from './formats';
import type { Subject } from './layout';
import { wordsOf } from './rows';

/** The lines of a row. */
export function briefly(shown: Shown, view: LineageView): string[] {
  const { subject } = shown.placed;
  const words = wordsOf(shown, view);
  const facts = words.aside ? [words.title, words.aside].join(' \u00b7 ') : words.title;
  if (shown.run > 0) {
    return [facts];
  }
  if (subject.kind === 'tip') {
    return [facts, ...tipBriefly(subject, view)];
  }
  const { facts: it, source, cell } = subject.checkpoint;
  const shared = it.shared_bytes > 0 ? ` \u00b7 ${say.size(it.shared_bytes)} shared` : '';
  return [
    facts,
    `paused ${say.milliseconds(it.paused_ms)} \u00b7 ${say.size(it.memory_bytes)} memory \u00b7 ` +
      `${say.size(it.disk_bytes)} disk${shared}`,
    longest(it.phases_ms),
    `${it.branch ? `${it.branch}, ` : ''}${say.when(it.created_at)}`,
    ofItsBranch(it.branch, view),
    cell === null ? '' : `In[${cell.count}] ${source}`
  ].filter(Boolean);
}

function tipBriefly(subject: Subject & { kind: 'tip' }, view: LineageView): string[] {
  const it = subject.branch;
  const { name, own_bytes, shared_bytes, awake_ms } = it.facts;
  const onDisk = `${say.size(say.storedBytes(name, view))} on disk`;
  return [
    joined(amount(own_bytes, 'own'), amount(shared_bytes, 'shared'), onDisk),
    `lived ${say.lived(it.lived_s)} \u00b7 awake in ${say.duration(awake_ms)}`,
    longest(it.phases_ms),
    spent(it, view) || say.counted(0, 'request')
  ].filter(Boolean);
}

function ofItsBranch(name: string, view: LineageView): string {
  const branch = view.branches.find(({ facts }) => facts.name === name);
  const words = branch === undefined ? '' : spent(branch, view);
  return words === '' ? '' : `${name}: ${words}`;
}

/** What a branch has spent outside; nothing if that is nothing. */
function spent(branch: BranchView, { currency }: LineageView): string {
  const tokens = branch.tokens_in + branch.tokens_out;
  return joined(
    branch.requests > 0 ? say.counted(branch.requests, 'request') : '',
    tokens > 0 ? say.counted(tokens, 'token') : '',
    branch.micros > 0 ? say.money(branch.micros, currency) : ''
  );
}

function joined(...words: string[]): string {
  return words.filter(Boolean).join(' \u00b7 ');
}

function amount(bytes: number | null, what: string): string {
  return bytes === null ? '' : `${say.size(bytes)} ${what}`;
}

/** The three phases that took longest. */
function longest(phases: Record<string, number>): string {
  return say
    .phasesOf(phases)
    .sort(([, one], [, other]) => other - one)
    .slice(0, 3)
    .map(([name, ms]) => `${say.phaseWords(name)} ${say.duration(ms)}`)
    .join(' \u00b7 ');
}
