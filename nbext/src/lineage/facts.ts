/**
 * A session as it is shown: mirrors branchpoint_vmruntime/lineage_view.py and control_facts.py, and
 * a test in tests/architecture holds them equal.
 * Times are ISO 8601, durations milliseconds (or seconds where a name ends in _s), sizes bytes.
 */

export interface RanCell {
  id: string;
  count: number;
}

export interface CellText extends RanCell {
  source: string;
}

export type CheckpointKind =
  'base' | 'user' | 'auto' | 'safety' | 'parked' | 'paused' | 'fork-point';

export type BranchState = 'live' | 'paused' | 'parked' | 'lent' | 'lost' | 'dropped';

export type Phases = Record<string, number>;

export interface CheckpointFacts {
  id: string;
  label: string;
  note: string;
  kind: CheckpointKind;
  branch: string;
  parent: string | null;
  created_at: string;
  pinned: boolean;
  memory_bytes: number;
  device_bytes: number;
  disk_bytes: number;
  shared_bytes: number;
  dirty_bytes: number;
  stopped_ms: number;
  paused_ms: number;
  total_ms: number;
  phases_ms: Phases;
}

export interface CheckpointView {
  facts: CheckpointFacts;
  count: number;
  cell: RanCell | null;
  source: string;
}

export interface BranchFacts {
  name: string;
  state: BranchState;
  current: boolean;
  index: number;
  parent: string | null;
  origin: string;
  head: string;
  head_label: string;
  created_at: string;
  own_bytes: number | null;
  shared_bytes: number | null;
  awake_ms: number;
  busy: boolean;
}

export interface BranchView {
  facts: BranchFacts;
  phases_ms: Phases;
  lived_s: number;
  requests: number;
  sent_bytes: number;
  received_bytes: number;
  tokens_in: number;
  tokens_out: number;
  micros: number;
  lent_to: string;
}

export interface OperationView {
  op: string;
  branch: string;
  checkpoint: string | null;
  at: string;
  total_ms: number;
  phases_ms: Phases;
}

export interface UnderWay {
  op: string;
  branch: string;
  since: string;
}

export interface LineageView {
  version: number;
  session: string;
  key: string;
  created_at: string;
  owner: 'kernel' | 'owner' | 'script' | null;
  current: string | null;
  checkpoints: CheckpointView[];
  branches: BranchView[];
  operations: OperationView[];
  currency: string;
  under_way: UnderWay[];
  line: RanCell[];
  left: RanCell[];
  died: string[];
}

/** What a session can be asked to do; `op` is the name at its control socket. */
export type Action =
  | { op: 'checkpoint'; label?: string; note?: string; branch?: string; pinned?: boolean }
  | { op: 'fork'; count: number; start?: string; names?: string[]; branch?: string }
  | { op: 'rollback'; target: string; branch?: string; safety?: boolean }
  | { op: 'switch'; name: string }
  | { op: 'keep'; name: string }
  | { op: 'drop'; names: string[] }
  | { op: 'pause'; name?: string }
  | { op: 'resume'; name?: string }
  | { op: 'pin'; checkpoint: string; pinned: boolean }
  | { op: 'annotate'; checkpoint: string; label?: string; note?: string };

/** What a session can be asked to tell, besides its view. */
export type Question =
  | { op: 'preview'; target: string }
  | { op: 'diff'; before: string; after?: string }
  | { op: 'cells'; of: string };

/** Lines for people, as the kernel writes them: plain text and HTML of its own making. */
export interface Told {
  text: string;
  html: string;
  record: Record<string, unknown>;
}

/** What went wrong, and what can be done about it. */
export interface Refusal {
  message: string;
  hint: string;
}

/**
 * What only a page of JupyterLab can do, for a session whose notebook is open in it. Each gives
 * whether it was done: not where the user thought better of it, nor where it was refused, which the
 * page has told then.
 */
export interface PageDeeds {
  openBranch(branch: string): Promise<boolean>;
  compareBranches(left: string, right: string): Promise<boolean>;
  restoreText(checkpoint: string): Promise<boolean>;
}

/** Where a drawn tree gets its answers: a comm of the kernel, or routes of the Jupyter server. */
export interface LineageService {
  act(action: Action): Promise<Record<string, unknown>>;
  /** Once `unwanted` is aborted nobody waits for the answer, and it may never come. */
  ask(question: Question, unwanted?: AbortSignal): Promise<Told | CellText[]>;
  /** What the page can do besides; it may come and go while the tree is there. */
  readonly page?: PageDeeds | undefined;
}
