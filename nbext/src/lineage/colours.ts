/** The colours of branches, for light and dark, and of what is written beside them. Pure. */

import type { BranchView } from './facts';

export interface Palette {
  /** What is drawn on: JupyterLab's, or this where there is none. */
  paper: string;
  /** The row of "you are here", and the row that is selected. */
  band: string;
  chosen: string;
  found: string;
  ink: string;
  quiet: string;
  faint: string;
  accent: string;
  warning: string;
  branches: readonly string[];
}

/**
 * Okabe and Ito's colours, which colour-blind readers can tell apart, and still can now that they are
 * darkened to read as text on white and on the bands; those of the static picture.
 */
export const LIGHT: Palette = {
  paper: '#ffffff',
  band: '#e9f2fc',
  chosen: '#f1f3f5',
  found: '#fff6d6',
  ink: '#1f2328',
  quiet: '#57606a',
  faint: '#d0d7de',
  accent: '#0b5cad',
  warning: '#a8290f',
  branches: ['#0072b2', '#b04200', '#007552', '#a0457c', '#205050', '#706030']
};

/** The same hues, lightened to read on black. */
export const DARK: Palette = {
  paper: '#1b1b1d',
  band: '#17304a',
  chosen: '#2d2f33',
  found: '#453a12',
  ink: '#e6e8ea',
  quiet: '#a9b1ba',
  faint: '#444a52',
  accent: '#6cb6ff',
  warning: '#ff9b85',
  branches: ['#56b4f0', '#f59a62', '#3ccf9f', '#e69ac8', '#a8def5', '#e6cd58']
};

/**
 * The number of each branch's colour: the next one, round and round in the order of making, but for
 * that of the branch it was made from. The rule is that of the static picture.
 */
export function colourNumbers(branches: readonly BranchView[]): Map<string, number> {
  const numbers = new Map<string, number>();
  const round = LIGHT.branches.length;
  let next = 0;
  for (const { facts } of branches) {
    const ofParent = facts.parent === null ? undefined : numbers.get(facts.parent);
    const number = next === ofParent ? (next + 1) % round : next;
    numbers.set(facts.name, number);
    next = (number + 1) % round;
  }
  return numbers;
}

/** The palette as declarations of our variables. */
export function variables(palette: Palette): string {
  const { branches, ...others } = palette;
  const plain = Object.entries(others).map(([name, value]) => `--bp-${name}: ${value};`);
  const lanes = branches.map((value, number) => `--bp-c${number}: ${value};`);
  return [...plain, ...lanes].join(' ');
}

/** The colour of a branch of that number; of what belongs to none, that of ink. */
export function colourOf(number: number | undefined): string {
  return number === undefined ? 'var(--bp-ink)' : `var(--bp-c${number})`;
}
