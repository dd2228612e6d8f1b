// @vitest-environment node
import { expect, test } from 'vitest';
import { aBranch, aCheckpoint, aView } from '../../demo/sessions';
import { briefly } from '../../src/lineage/briefly';
import { detailsOf } from '../../src/lineage/details';
import type { BranchView, LineageView } from '../../src/lineage/facts';
import { visible } from '../../src/lineage/folding';
import { place, type Subject } from '../../src/lineage/layout';

const NOTHING = { requests: 0, tokens_in: 0, tokens_out: 0, micros: 0 };

/** Two checkpoints of `idea`, of 3 MB and 4 MB, after the base, which is as large as a machine. */
function session(spent: Partial<BranchView>): LineageView {
  const sized = (id: string, parent: string | null, branch: string, megabytes: number) => {
    const point = aCheckpoint(id, parent, branch, parent === null ? 'base' : 'user');
    const memory_bytes = megabytes * 1e6 - 500_000;
    const disk = { memory_bytes, disk_bytes: 400_000, device_bytes: 100_000 };
    return { ...point, facts: { ...point.facts, ...disk } };
  };
  const checkpoints = [
    sized('k0', null, 'idea', 900),
    sized('k1', 'k0', 'idea', 3),
    sized('k2', 'k1', 'idea', 4),
    sized('k3', 'k2', 'other', 5)
  ];
  return aView(checkpoints, [aBranch('idea', 'k2', 'live', spent)], 'idea');
}

function shownOf(key: string, view: LineageView): { hover: string[]; subject: Subject } {
  const rows = visible(place(view.checkpoints, view.branches), new Map());
  const row = rows.find(each => each.key === key);
  if (row === undefined) {
    throw new Error(`there is no row ${key}`);
  }
  return { hover: briefly(row, view), subject: row.placed.subject };
}

function hoverOf(key: string, spent: Partial<BranchView> = {}): string {
  return shownOf(key, session(spent)).hover.join('\n');
}

test('of a branch there are requests, tokens and money, each whatever the others are', () => {
  const all = { requests: 12, tokens_in: 15_000, tokens_out: 2000, micros: 41_300 };
  expect(hoverOf('b:idea', all)).toContain('12 requests · 17,000 tokens · 0.0413 USD');
  const paid = { ...NOTHING, requests: 1, micros: 2_000_000 };
  expect(hoverOf('b:idea', paid)).toContain('1 request · 2.00 USD');
  expect(hoverOf('b:idea', paid)).not.toContain('token');
  expect(hoverOf('b:idea', NOTHING)).toContain('0 requests');
});

test('of a branch there is what its own checkpoints take on the disk', () => {
  expect(hoverOf('b:idea')).toContain('7.0 MB on disk');
});

test('of a checkpoint there is what its branch has spent', () => {
  const spent = { requests: 12, tokens_in: 15_000, tokens_out: 2000, micros: 41_300 };
  expect(hoverOf('c:k1', spent)).toContain('idea: 12 requests · 17,000 tokens · 0.0413 USD');
  expect(hoverOf('c:k1', NOTHING)).not.toContain('requests');
  expect(hoverOf('c:k3', spent)).not.toContain('tokens');
});

test('what is told of a row in short is told beside the tree as well', () => {
  const view = session({});
  const parts = detailsOf(shownOf('b:idea', view).subject, view).parts;
  const facts = parts.flatMap(part => ('facts' in part ? part.facts : []));
  expect(facts).toContainEqual(['on disk', '7.0 MB']);
});
