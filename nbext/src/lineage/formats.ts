/** Figures and facts in words for people, as the kernel's own lines have them. Pure. */

import type { BranchState, CheckpointKind, CheckpointView, LineageView, Phases } from './facts';

export const NOTHING = '\u2013';

/** As `MOST_OPERATIONS` in branchpoint_vmruntime/lineage_view.py: a view has the newest of them. */
export const MOST_OPERATIONS = 200;

/** Bytes: "38 MB", "1.1 GB". */
export function size(count: number): string {
  if (count >= 1e9) {
    return `${(count / 1e9).toFixed(1)} GB`;
  }
  if (count >= 1e7) {
    return `${(count / 1e6).toFixed(0)} MB`;
  }
  return count >= 1e5 ? `${(count / 1e6).toFixed(1)} MB` : `${(count / 1e3).toFixed(0)} kB`;
}

export function sizeOrNothing(count: number | null): string {
  return count === null ? NOTHING : size(count);
}

/** Milliseconds: "46 ms", "1.84 s", "104 s". */
export function duration(ms: number): string {
  if (ms < 999.5) {
    return `${ms.toFixed(0)} ms`;
  }
  return ms < 1e5 ? `${(ms / 1e3).toFixed(2)} s` : `${grouped(ms / 1e3)} s`;
}

/** A short time as the columns have it: always milliseconds, so that rows compare. */
export function milliseconds(ms: number): string {
  return ms > 0 ? `${grouped(ms)} ms` : NOTHING;
}

/** Seconds someone has lived: "40 s", "12 min", "3 h 05 min". */
export function lived(seconds: number): string {
  if (seconds < 100) {
    return `${seconds.toFixed(0)} s`;
  }
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) {
    return `${minutes} min`;
  }
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} min`;
}

/** A clock that runs: "1.2 s", "12 s", "2 min 05 s". */
export function elapsed(ms: number): string {
  const seconds = Math.max(0, ms) / 1e3;
  if (seconds < 10) {
    return `${(Math.floor(seconds * 10) / 10).toFixed(1)} s`;
  }
  if (seconds < 60) {
    return `${Math.floor(seconds)} s`;
  }
  return `${Math.floor(seconds / 60)} min ${String(Math.floor(seconds % 60)).padStart(2, '0')} s`;
}

/** A whole number with its thousands apart. */
export function grouped(count: number): string {
  return count.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** Millionths of a currency: "0.0123 USD". */
export function money(micros: number, currency: string): string {
  const whole = micros / 1e6;
  const digits = micros !== 0 && Math.abs(whole) < 1 ? 4 : 2;
  return `${whole.toFixed(digits)} ${currency}`.trim();
}

/** "1 checkpoint", "12 checkpoints". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${grouped(count)} ${count === 1 ? one : many}`;
}

function two(part: number): string {
  return String(part).padStart(2, '0');
}

/** A moment by the clock on the wall, with its day unless that is today. */
export function when(iso: string, now = new Date()): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) {
    return iso;
  }
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === now.toDateString()) {
    return clock;
  }
  const year = at.getFullYear() === now.getFullYear() ? '' : ` ${at.getFullYear()}`;
  return `${at.getDate()} ${MONTHS[at.getMonth()]}${year}, ${clock}`;
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

const KIND_WORDS: Record<CheckpointKind, string> = {
  base: 'fresh machine, shared by all sessions',
  user: '',
  auto: 'saved after a cell',
  safety: 'saved before a rollback',
  paused: 'saved when paused',
  parked: 'saved when parked',
  'fork-point': 'saved at a fork'
};

/** Why a checkpoint was taken, in words; nothing for one that somebody asked for. */
export function kindWords(kind: CheckpointKind): string {
  return KIND_WORDS[kind] ?? kind;
}

/** The same where something has to be said. */
export function kindNamed(kind: CheckpointKind): string {
  return kindWords(kind) || 'saved on request';
}

const STATE_WORDS: Record<BranchState, string> = {
  live: 'live',
  paused: 'paused: wakes when wanted',
  parked: 'parked: switch wakes it',
  lent: 'lent to another notebook',
  lost: 'lost: ended without being saved',
  dropped: 'dropped'
};

/** What has become of a branch, and what that means. */
export function stateWords(state: BranchState): string {
  return STATE_WORDS[state] ?? state;
}

/** What a checkpoint added to the store. */
export function newBytes({ facts }: CheckpointView): number {
  return facts.memory_bytes + facts.device_bytes + facts.disk_bytes;
}

/** What the checkpoints of a branch added to the store; the base is shared by all sessions. */
export function storedBytes(branch: string, { checkpoints }: LineageView): number {
  return checkpoints
    .filter(({ facts }) => facts.branch === branch && facts.kind !== 'base')
    .reduce((sum, checkpoint) => sum + newBytes(checkpoint), 0);
}

/** What a checkpoint is called: its label, or the beginning of its id. */
export function titleOf({ facts }: CheckpointView): string {
  return facts.label || facts.id.slice(0, 8);
}

/** The file that a session's key names, without its folder: there is no room for that. */
export function fileOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** Phases in the order they were measured, without those that took nothing. */
export function phasesOf(phases: Phases): [string, number][] {
  return Object.entries(phases).filter(([, ms]) => ms > 0);
}

/** The name of a phase as words: "guest-freeze" is "guest: freeze". */
export function phaseWords(name: string): string {
  const inGuest = name.startsWith('guest-');
  const words = (inGuest ? name.slice('guest-'.length) : name).replaceAll('-', ' ');
  return inGuest ? `guest: ${words}` : words;
}

const DOING: Record<string, string> = {
  checkpoint: 'saving',
  fork: 'forking',
  rollback: 'rolling back',
  switch: 'switching to',
  keep: 'keeping',
  drop: 'dropping',
  pause: 'pausing',
  resume: 'resuming',
  lend: 'lending',
  remove: 'removing from',
  start: 'starting'
};

/** Something under way: "rolling back main". */
export function doing(op: string, branch: string): string {
  return `${DOING[op] ?? op} ${branch}`.trim();
}

/** Whether there may be older operations than those. */
export function areNewest(operations: readonly unknown[]): boolean {
  return operations.length >= MOST_OPERATIONS;
}

/** What was done, how often, and how long each took at the median. */
export function summary(operations: readonly { op: string; total_ms: number }[]): string {
  const times = new Map<string, number[]>();
  for (const { op, total_ms } of operations) {
    times.set(op, [...(times.get(op) ?? []), total_ms]);
  }
  const words = [...times]
    .map(([op, all]) => {
      const often = all.length > 1 ? `${all.length} \u00d7 ` : '';
      return `${often}${op} ${grouped(median(all))} ms`;
    })
    .join(' \u00b7 ');
  return areNewest(operations) ? `newest ${MOST_OPERATIONS}: ${words}` : words;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? 0)) / 2;
}
