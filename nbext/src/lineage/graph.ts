/** The rails and marks beside the rows: shapes and lines as the static picture has them. */

import type { BranchState, CheckpointKind } from './facts';
import { colourOf } from './colours';
import { svg, Written } from './dom';
import { foldedLine, type Shown } from './folding';

/** How something is marked: its shape, whether it is filled, and the line that leads to it. */
interface Look {
  shape: string;
  filled: boolean;
  dash: string;
}

/** Sizes in pixels. */
export interface Scale {
  row: number;
  lane: number;
  margin: number;
}

const SOLID = '';
const DASHED = '6 3';

function circle(r: number): string {
  return `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;
}

function square(half: number): string {
  return `M${-half} ${-half}h${2 * half}v${2 * half}h${-2 * half}Z`;
}

const TRIANGLE = 'M-5.5 -5.5L6.5 0L-5.5 5.5Z';
const CROSS = 'M-4 -4L4 4M-4 4L4 -4';
const DIAMOND = 'M0 -6L6 0L0 6L-6 0Z';
const CAPSULE = 'M-4 -4a4 4 0 0 1 8 0v8a4 4 0 0 1 -8 0Z';

export const BRANCH_LOOKS: Record<BranchState, Look> = {
  live: { shape: TRIANGLE, filled: true, dash: SOLID },
  paused: { shape: square(4), filled: true, dash: DASHED },
  parked: { shape: square(4), filled: false, dash: DASHED },
  lent: { shape: TRIANGLE, filled: false, dash: DASHED },
  lost: { shape: CROSS, filled: true, dash: '7 3 2 3' },
  dropped: { shape: CROSS, filled: false, dash: '2 3' }
};

export const CHECKPOINT_LOOKS: Record<CheckpointKind, Look> = {
  base: { shape: DIAMOND, filled: true, dash: SOLID },
  user: { shape: circle(5.5), filled: true, dash: SOLID },
  auto: { shape: circle(3.5), filled: true, dash: SOLID },
  safety: { shape: circle(4), filled: false, dash: SOLID },
  paused: { shape: circle(4), filled: false, dash: SOLID },
  parked: { shape: circle(4), filled: false, dash: SOLID },
  'fork-point': { shape: circle(4), filled: false, dash: SOLID }
};

const RUN_LOOK: Look = { shape: CAPSULE, filled: false, dash: SOLID };

/** What is drawn of one row: the line that leads to it, in two parts, and its mark. */
interface Drawn {
  group: SVGGElement;
  stem: Written;
  edge: Written;
  mark: Written;
}

export interface Marked {
  shown: Shown;
  colour: number | undefined;
  isCurrent: boolean;
  isQuiet: boolean;
}

/** Everything beside the rows, kept by key from one picture to the next. */
export class Graph {
  readonly element = svg('svg', 'bp-graph');
  private readonly edges = svg('g');
  private readonly marks = svg('g');
  private readonly drawn = new Map<string, Drawn>();

  constructor() {
    this.element.setAttribute('aria-hidden', 'true');
    this.element.append(this.edges, this.marks);
  }

  draw(rows: readonly Marked[], scale: Scale, width: number): void {
    this.element.setAttribute('width', String(width));
    this.element.setAttribute('height', String(rows.length * scale.row));
    const seen = new Set<string>();
    const forkedOff: number[] = [];
    rows.forEach((row, place) => {
      const { key, parent } = row.shown;
      seen.add(key);
      let drawn = this.drawn.get(key);
      if (drawn === undefined) {
        drawn = this.add();
        this.drawn.set(key, drawn);
      }
      this.update(drawn, row, place, rows, forkedOff, scale);
      if (parent !== null) {
        forkedOff[parent] = place;
      }
    });
    for (const [key, { group, mark }] of this.drawn) {
      if (!seen.has(key)) {
        group.remove();
        mark.node.remove();
        this.drawn.delete(key);
      }
    }
  }

  private add(): Drawn {
    const group = svg('g', 'bp-line');
    const stem = svg('path');
    const edge = svg('path');
    const mark = svg('path');
    group.append(stem, edge);
    this.edges.append(group);
    this.marks.append(mark);
    return { group, stem: new Written(stem), edge: new Written(edge), mark: new Written(mark) };
  }

  private update(
    drawn: Drawn,
    row: Marked,
    place: number,
    rows: readonly Marked[],
    forkedOff: readonly number[],
    scale: Scale
  ): void {
    const x = scale.margin + row.shown.placed.lane * scale.lane;
    const y = (place + 0.5) * scale.row;
    const look = lookOf(row.shown);
    const colour = row.isQuiet ? 'var(--bp-quiet)' : colourOf(row.colour);
    const over = row.shown.parent;
    const from = over === null ? undefined : rows[over];
    let stem = '';
    let edge = '';
    if (over !== null && from !== undefined) {
      const x0 = scale.margin + from.shown.placed.lane * scale.lane;
      const y0 = (over + 0.5) * scale.row;
      const bend = Math.min(scale.row / 2, scale.lane);
      if (x0 !== x) {
        edge = `M${x0} ${y - bend}Q${x0} ${y} ${x0 + bend} ${y}L${x} ${y}`;
      } else {
        // What goes straight on is placed last, so those that leave its line are known by now.
        const last = forkedOff[over];
        const turn = last === undefined ? y0 : Math.max(y0, (last + 0.5) * scale.row - bend);
        stem = turn > y0 ? `M${x} ${y0}V${turn}` : '';
        edge = `M${x} ${turn}V${y}`;
      }
    }
    const thick = row.isCurrent ? '3.4' : '2';
    drawn.stem.attribute('d', stem);
    drawn.stem.attribute('style', `stroke:${colour};stroke-width:2`);
    drawn.edge.attribute('d', edge);
    const dash = look.dash ? `;stroke-dasharray:${look.dash}` : '';
    drawn.edge.attribute('style', `stroke:${colour};stroke-width:${thick}${dash}`);
    drawn.mark.attribute('d', look.shape);
    const grown = scale.row < 24 ? 0.85 : scale.row > 34 ? 1.25 : 1;
    const larger = row.isCurrent ? grown * 1.2 : grown;
    drawn.mark.attribute('transform', `translate(${x} ${y}) scale(${larger})`);
    const fill = look.filled ? colour : 'var(--bp-paper)';
    // A cross has no inside: one that is filled has thicker strokes.
    const stroke = look.shape === CROSS && look.filled ? 4.5 : 2;
    drawn.mark.attribute('style', `stroke:${colour};fill:${fill};stroke-width:${stroke}`);
  }
}

function lookOf(shown: Shown): Look {
  const { run, placed } = shown;
  if (run > 0) {
    return RUN_LOOK;
  }
  const line = foldedLine(shown);
  if (line !== null) {
    return BRANCH_LOOKS[line.facts.state] ?? BRANCH_LOOKS.lost;
  }
  const { subject } = placed;
  return subject.kind === 'tip'
    ? (BRANCH_LOOKS[subject.branch.facts.state] ?? BRANCH_LOOKS.lost)
    : (CHECKPOINT_LOOKS[subject.checkpoint.facts.kind] ?? CHECKPOINT_LOOKS.user);
}
