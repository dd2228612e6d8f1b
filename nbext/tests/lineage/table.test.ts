import { expect, test } from 'vitest';
import { small } from '../../demo/sessions';
import { MOST_OPERATIONS } from '../../src/lineage/formats';
import { Tables } from '../../src/lineage/table';

test('where there may be more operations than are shown, their table says so', () => {
  const [operation] = small().operations;
  const operations = Array.from({ length: MOST_OPERATIONS }, () => operation ?? []).flat();
  const tables = new Tables();
  const caption = (): string | null | undefined =>
    [...tables.element.querySelectorAll('table')].at(-1)?.caption?.textContent;
  tables.show({ ...small(), operations: operations.slice(1) });
  expect(caption()).toBe('What was done, the newest first');
  tables.show({ ...small(), operations });
  expect(caption()).toBe('What was done: the newest 200, the newest first');
});
