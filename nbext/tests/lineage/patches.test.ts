import { expect, test } from 'vitest';
import { many } from '../../demo/sessions';
import { patched } from '../../src/lineage/patches';

test('a view is patched as tests/unit/runtime/test_view_patches.py has it, and the rest is kept', () => {
  const view = many(40);
  const { checkpoints } = view;
  const [first] = checkpoints;
  const noted = { ...first, count: 99 };
  const after = patched(view, {
    version: { value: 7 },
    current: { value: null },
    checkpoints: { pieces: [[0, 7], { item: noted }, [8, 40]] },
    operations: { pieces: [] }
  });
  expect([after.version, after.current, after.operations]).toEqual([7, null, []]);
  expect(after.checkpoints[7]).toEqual(noted);
  expect(after.checkpoints).toHaveLength(Math.min(40, checkpoints.length));
  expect(after.checkpoints[6]).toBe(checkpoints[6]);
  expect(after.branches).toBe(view.branches);
  expect(view.version).not.toBe(7);
});
