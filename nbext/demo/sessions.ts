/** Made-up sessions of any size, always the same for the same number. */

import type {
  BranchState,
  BranchView,
  CheckpointKind,
  CheckpointView,
  LineageView
} from '../src/lineage/facts';

const START = Date.UTC(2026, 10, 30, 9, 0, 0);
const NAMES = ['ridge', 'forest', 'boost', 'lasso', 'deep', 'tiny', 'wide', 'spare'];
const SOURCES = [
  'df = load_everything()',
  'score = fit(MODELS[branch.name]); score',
  'for epoch in range(10): train(model, epoch)',
  '!pip list | grep torch',
  'plt.plot(history["loss"], label="loss <b>&</b>")'
];

/** Numbers that look random and are the same each time. */
export function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function aCheckpoint(
  id: string,
  parent: string | null,
  branch: string,
  kind: CheckpointKind = 'user',
  label = id,
  roll: () => number = dice(id.length)
): CheckpointView {
  const number = Number(id.replace(/\D/g, '')) || 0;
  const freeze = 4 + 20 * roll();
  const find = 10 + 40 * roll();
  const copy = 2 + 60 * roll();
  return {
    facts: {
      id,
      label,
      note: number % 17 === 3 ? 'before the long fit; worth keeping' : '',
      kind,
      branch,
      parent,
      created_at: new Date(START + number * 47_000).toISOString(),
      pinned: number % 29 === 7,
      memory_bytes: Math.round(4e6 + 9e7 * roll() * roll()),
      device_bytes: 14_000,
      disk_bytes: Math.round(5e6 * roll()),
      shared_bytes: 1_100_000_000,
      dirty_bytes: 40_000_000,
      stopped_ms: find + copy,
      paused_ms: kind === 'base' ? 0 : freeze + find + copy,
      total_ms: 3 * (freeze + find + copy),
      phases_ms: { freeze, stop: 0.4, 'find-pages': find, 'devices-and-disk': 3.2, copy, thaw: 1.1 }
    },
    count: number,
    cell: kind === 'base' ? null : { id: `cell-${number}`, count: number },
    source: SOURCES[number % SOURCES.length] ?? ''
  };
}

export function aBranch(
  name: string,
  head: string,
  state: BranchState = 'live',
  more: Partial<BranchView> = {}
): BranchView {
  const isLive = state === 'live';
  return {
    facts: {
      name,
      state,
      current: false,
      index: 1,
      parent: null,
      origin: head,
      head,
      head_label: head,
      created_at: new Date(START).toISOString(),
      own_bytes: isLive ? 38_000_000 : null,
      shared_bytes: isLive ? 412_000_000 : null,
      awake_ms: 98,
      busy: false
    },
    phases_ms: { spawn: 31, load: 3.4, wake: 64, 'guest-thaw': 12 },
    lived_s: 754,
    requests: 12,
    sent_bytes: 48_000,
    received_bytes: 2_400_000,
    tokens_in: 15_320,
    tokens_out: 2_144,
    micros: 41_300,
    lent_to: state === 'lent' ? 'ideas/forest.ipynb' : '',
    ...more
  };
}

export function aView(
  checkpoints: CheckpointView[],
  branches: BranchView[],
  current: string | null,
  more: Partial<LineageView> = {}
): LineageView {
  return {
    version: 1,
    session: '7f3c9a',
    key: 'analysis.ipynb',
    created_at: new Date(START).toISOString(),
    owner: 'kernel',
    current,
    checkpoints,
    branches,
    operations: [
      {
        op: 'checkpoint',
        branch: 'main',
        checkpoint: 'k1',
        at: new Date(START).toISOString(),
        total_ms: 212,
        phases_ms: { freeze: 11 }
      },
      {
        op: 'checkpoint',
        branch: 'main',
        checkpoint: 'k2',
        at: new Date(START).toISOString(),
        total_ms: 180,
        phases_ms: {}
      },
      {
        op: 'fork',
        branch: 'ridge',
        checkpoint: 'k2',
        at: new Date(START).toISOString(),
        total_ms: 611,
        phases_ms: {}
      }
    ],
    currency: 'USD',
    under_way: [],
    line: [],
    left: [],
    died: [],
    ...more
  };
}

/** The session of the quickstart: three forks, one kept. */
export function small(): LineageView {
  const roll = dice(11);
  const made = (
    id: string,
    parent: string | null,
    of: string,
    kind: CheckpointKind,
    label: string
  ) => aCheckpoint(id, parent, of, kind, label, roll);
  const checkpoints = [
    made('k0', null, 'main', 'base', 'base'),
    made('k1', 'k0', 'main', 'user', 'loaded'),
    made('k2', 'k1', 'main', 'fork-point', 'fork-1'),
    made('k3', 'k2', 'ridge', 'parked', 'parked-ridge-1'),
    made('k4', 'k2', 'main', 'safety', 'before-rollback-1')
  ];
  const on = (name: string, head: string, state: BranchState): BranchView => {
    const branch = aBranch(name, head, state);
    const label = checkpoints.find(({ facts }) => facts.id === head)?.facts.label ?? head;
    return { ...branch, facts: { ...branch.facts, head_label: label } };
  };
  const branches = [
    on('main', 'k1', 'parked'),
    on('ridge', 'k3', 'parked'),
    on('forest', 'k2', 'lent'),
    on('boost', 'k2', 'live'),
    on('lasso', 'k2', 'dropped'),
    on('deep', 'k2', 'paused'),
    on('tiny', 'k2', 'lost')
  ];
  return aView(checkpoints, branches, 'boost');
}

/** A long session: automatic checkpoints, forks of forks, branches in every state. */
export function many(count: number): LineageView {
  // One sequence for all of them: a longer session goes on from a shorter one.
  const roll = dice(41);
  const checkpoints = [aCheckpoint('k0', null, 'main', 'base', 'base', roll)];
  const heads = new Map([['main', 'k0']]);
  let on = 'main';
  let auto = 0;
  for (let number = 1; number < count; number += 1) {
    if (roll() < 0.04) {
      const names = [...heads.keys()];
      on = names[Math.floor(roll() * names.length)] ?? on;
    }
    let kind: CheckpointKind = roll() < 0.72 ? 'auto' : 'user';
    const parent = heads.get(on) ?? 'k0';
    if (roll() < 0.03 && heads.size < 24) {
      kind = 'fork-point';
      on = `${NAMES[heads.size % NAMES.length]}${heads.size >= NAMES.length ? `-${heads.size}` : ''}`;
    }
    const label =
      kind === 'auto' ? `auto-${(auto += 1)}` : `${kind === 'user' ? 'step' : 'fork'}-${number}`;
    checkpoints.push(aCheckpoint(`k${number}`, parent, on, kind, label, roll));
    heads.set(on, `k${number}`);
  }
  const states: BranchState[] = ['live', 'parked', 'paused', 'dropped', 'live', 'lost', 'lent'];
  const branches = [...heads].map(([name, head], number) =>
    aBranch(name, head, name === on ? 'live' : (states[number % states.length] ?? 'live'))
  );
  return aView(checkpoints, branches, on);
}

/** The same session when other figures were measured, as each second of a live one. */
export function moved(view: LineageView, tick: number): LineageView {
  const roll = dice(tick);
  const branches = view.branches.map(branch => {
    const own = branch.facts.own_bytes === null ? null : Math.round(1e6 + 2e9 * roll());
    const facts = { ...branch.facts, own_bytes: own, busy: roll() < 0.5 };
    return {
      ...branch,
      facts,
      lived_s: branch.lived_s + tick,
      tokens_in: Math.round(1e6 * roll())
    };
  });
  return { ...view, version: view.version + tick, branches };
}
