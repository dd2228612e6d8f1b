import { expect, test } from 'vitest';
import { type BranchFigures, withFigures } from '../../src/lineage/figures';
import { small } from '../../demo/sessions';

const MOVED: BranchFigures = {
  own_bytes: 7,
  shared_bytes: 8,
  lived_s: 9,
  requests: 10,
  sent_bytes: 11,
  received_bytes: 12,
  tokens_in: 13,
  tokens_out: 14,
  micros: 15
};

test('figures that have moved since are what is shown, and the rest is as it was', () => {
  const view = small();
  const [first, ...others] = view.branches;
  const { own_bytes, shared_bytes, ...spent } = MOVED;
  const shown = withFigures(view, { [first?.facts.name ?? '']: MOVED });
  expect(shown.branches[0]).toEqual({
    ...first,
    ...spent,
    facts: { ...first?.facts, own_bytes, shared_bytes }
  });
  expect(shown.branches.slice(1)).toEqual(others);
  expect(shown.checkpoints).toBe(view.checkpoints);
});

test('figures of a branch that a view has not are passed over', () => {
  expect(withFigures(small(), { nobody: MOVED })).toEqual(small());
});
