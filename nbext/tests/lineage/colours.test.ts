// @vitest-environment node
import { expect, test } from 'vitest';
import { aBranch } from '../../demo/sessions';
import { colourNumbers, DARK, LIGHT, type Palette, variables } from '../../src/lineage/colours';

const AA_TEXT = 4.5;
const AA_SHAPE = 3;

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map(at => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

const palettes: [string, Palette][] = [
  ['light', LIGHT],
  ['dark', DARK]
];

test('contrast is measured as WCAG has it', () => {
  expect(contrast('#ffffff', '#000000')).toBeCloseTo(21, 5);
  expect(contrast('#777777', '#ffffff')).toBeCloseTo(4.48, 2);
});

test.each(palettes)('all words read on all that is behind them: %s', (_, palette) => {
  const words = [palette.ink, palette.quiet, palette.accent, palette.warning, ...palette.branches];
  const behind = [palette.paper, palette.band, palette.chosen, palette.found];
  for (const word of words) {
    for (const paper of behind) {
      expect(contrast(word, paper), `${word} on ${paper}`).toBeGreaterThanOrEqual(AA_TEXT);
    }
  }
});

test.each(palettes)('words on a coloured ground read: %s', (_, palette) => {
  for (const ground of [palette.accent, palette.warning]) {
    expect(contrast(palette.paper, ground), ground).toBeGreaterThanOrEqual(AA_TEXT);
  }
});

test.each(palettes)('the edges of fields and buttons are seen: %s', (_, palette) => {
  expect(contrast(palette.quiet, palette.paper)).toBeGreaterThanOrEqual(AA_SHAPE);
});

test('no two branches side by side have one colour, and the seventh begins again', () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];
  const numbers = colourNumbers(names.map(name => aBranch(name, 'k0')));
  expect([...numbers.values()]).toEqual([0, 1, 2, 3, 4, 5, 0]);
  expect(new Set(LIGHT.branches).size).toBe(6);
  expect(new Set(DARK.branches).size).toBe(6);
});

test('a palette declares a variable for each colour', () => {
  expect(variables(LIGHT)).toContain('--bp-c5: ');
  expect(variables(LIGHT)).toContain(`--bp-paper: ${LIGHT.paper};`);
});
