// @vitest-environment node
import { expect, test } from 'vitest';
import { aBranch } from '../../demo/sessions';
import { colourNumbers, DARK, LIGHT, type Palette, variables } from '../../src/lineage/colours';
import vectors from './colour_vectors.json';

const AA_TEXT = 4.5;
const AA_SHAPE = 3;

// Two lines of less than this are hard to tell apart; about 2 is just seen where areas touch.
const APART = 10;

type Triple = [number, number, number];
type Matrix = [Triple, Triple, Triple];

// Machado, Oliveira and Fernandes 2009, for linear RGB: who lacks one kind of cone wholly.
const SEEN_BY: [string, Matrix][] = [
  [
    'most',
    [
      [1, 0, 0],
      [0, 1, 0],
      [0, 0, 1]
    ]
  ],
  [
    'protanopes',
    [
      [0.152286, 1.052583, -0.204868],
      [0.114503, 0.786281, 0.099216],
      [-0.003882, -0.048116, 1.051998]
    ]
  ],
  [
    'deuteranopes',
    [
      [0.367322, 0.860646, -0.227968],
      [0.280085, 0.672501, 0.047413],
      [-0.01182, 0.04294, 0.968881]
    ]
  ],
  [
    'tritanopes',
    [
      [1.255528, -0.076749, -0.178779],
      [-0.078411, 0.930809, 0.147602],
      [0.004733, 0.691367, 0.3039]
    ]
  ]
];
const TO_XYZ: Matrix = [
  [0.4124564, 0.3575761, 0.1804375],
  [0.2126729, 0.7151522, 0.072175],
  [0.0193339, 0.119192, 0.9503041]
];

function linear(colour: string): Triple {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map(at => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return [red, green, blue];
}

function times(matrix: Matrix, [x, y, z]: Triple): Triple {
  const [one, two, three] = matrix.map(([a, b, c]) => a * x + b * y + c * z);
  return [one ?? 0, two ?? 0, three ?? 0];
}

/** CIELAB of a linear colour. */
function lab(colour: Triple): Triple {
  const white = times(TO_XYZ, [1, 1, 1]);
  const inside = colour.map(part => Math.min(1, Math.max(0, part))) as Triple;
  const [x = 0, y = 0, z = 0] = times(TO_XYZ, inside).map((part, at) => {
    const ratio = part / (white[at] ?? 1);
    return ratio > 216 / 24389 ? Math.cbrt(ratio) : ((24389 / 27) * ratio + 16) / 116;
  });
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** How different two colours are (CIE76) to those who see them so. */
function difference(one: string, other: string, seen: Matrix): number {
  const [first, second] = [lab(times(seen, linear(one))), lab(times(seen, linear(other)))];
  return Math.hypot(...first.map((part, at) => part - (second[at] ?? 0)));
}

function luminance(colour: string): number {
  const [red, green, blue] = linear(colour);
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

test('differences are measured as CIE 1976 has it', () => {
  const [, most] = SEEN_BY[0] ?? ['', TO_XYZ];
  expect(difference('#ffffff', '#000000', most)).toBeCloseTo(100, 3);
  expect(difference('#ff0000', '#00ff00', most)).toBeCloseTo(170.6, 1);
});

test.each(palettes)('the colour-blind can tell any two branches apart: %s', (_, { branches }) => {
  expect(new Set(branches).size).toBe(6);
  for (const [who, seen] of SEEN_BY) {
    for (const [at, one] of branches.entries()) {
      for (const other of branches.slice(at + 1)) {
        const apart = difference(one, other, seen);
        expect(apart, `${one} and ${other}, to ${who}`).toBeGreaterThanOrEqual(APART);
      }
    }
  }
});

function numbersOf(parents: readonly (readonly [string, string | null])[]): number[] {
  const branches = parents.map(([name, parent]) => {
    const branch = aBranch(name, 'k0');
    return { ...branch, facts: { ...branch.facts, parent } };
  });
  return [...colourNumbers(branches).values()];
}

// The other half is tests/unit/lineage/test_layout_vectors.py: picture and tree have to agree.
const examples = vectors as unknown as { branches: [string, string | null][]; numbers: number[] }[];

test.each(examples)('colours go round as in the shared example of $numbers', example => {
  expect(numbersOf(example.branches)).toEqual(example.numbers);
});

test('no branch has the colour of the one it was made from, or of the one made before it', () => {
  const parentOf = (at: number): number => Math.floor(at / 7);
  const made = Array.from({ length: 50 }, (_, at) => at);
  const numbers = numbersOf(made.map(at => [`b${at}`, at ? `b${parentOf(at)}` : null]));
  for (const at of made.slice(1)) {
    expect(numbers[at]).not.toBe(numbers[at - 1]);
    expect(numbers[at]).not.toBe(numbers[parentOf(at)]);
  }
});

test('a palette declares a variable for each colour', () => {
  expect(variables(LIGHT)).toContain('--bp-c5: ');
  expect(variables(LIGHT)).toContain(`--bp-paper: ${LIGHT.paper};`);
});
