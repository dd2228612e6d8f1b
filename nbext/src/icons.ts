/** Our icons, in JupyterLab's colours for icons. */
import { LabIcon } from '@jupyterlab/ui-components';

/** 16 by 16, strokes and dots in what the theme has for icons. */
function icon(name: string, lines: string, dots: readonly (readonly [number, number])[]): LabIcon {
  const circles = dots.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="2"/>`).join('');
  const svgstr = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
    <path class="jp-icon3" fill="none" stroke="#616161" stroke-width="1.4" stroke-linecap="round"
      stroke-linejoin="round" d="${lines}"/>
    <g class="jp-icon3" fill="#616161">${circles}</g>
  </svg>`;
  return new LabIcon({ name: `branchpoint:${name}`, svgstr });
}

/** The logo: a line of work, and another that leaves it. */
export const lineageIcon = icon('lineage', 'M4.5 4v8M4.5 9c0-3 7-1.500 7-4.500', [
  [4.5, 3],
  [4.5, 13],
  [11.5, 4]
]);

export const checkpointIcon = icon(
  'checkpoint',
  'M8 1.500v3.500M8 11v3.500M8 5a3 3 0 1 0 0 6 3 3 0 1 0 0-6',
  [[8, 8]]
);

export const forkIcon = icon('fork', 'M8 13V9M8 9c0-3-4.500-2-4.500-5M8 9c0-3 4.500-2 4.500-5', [
  [8, 13.5],
  [3.5, 3],
  [12.5, 3]
]);

export const rollbackIcon = icon(
  'rollback',
  'M5 2.500 2.500 5 5 7.500M2.500 5H10a3.500 3.500 0 0 1 0 7H8',
  [[6, 12]]
);
