/** What a signed-in user may do, and purchases that are not lost. See docs/javascript.md. */

/** Of the client. It goes with each request, as `Countersign-Client: javascript/0.1.0`. */
export const version: string;

export interface ClientOptions {
  /** Where the service is, as `https://countersign.example.com`. */
  baseURL: string;
  /**
   * Gives the user's bearer token, and with `fresh` one that was not given before; null where nobody is signed in.
   * Nothing is sent under a JWT whose `sub` is another user.
   */
  token: (how: { fresh: boolean }) => Promise<string | null> | string | null;
  /** The user's ID, as the token's `sub` has it. */
  user: string;
  /** `localStorage`, `AsyncStorage` and the like. Without one nothing outlives the client. */
  storage?: Storage;
  fetch?: (url: string, options: RequestInit) => Promise<Response>;
  /** The service's `/.well-known/jwks.json`, pinned. Without it the keys are fetched and kept beside the token. */
  keys?: { keys: readonly Key[] } | null;
  /**
   * Checks an ES256 signature where there is no WebCrypto: 64 bytes, r and s. `null` checks none, and `access.verified` says
   * so. Where there is neither and `keys` are pinned, `createClient` throws.
   */
  verify?: ((key: Key, signature: Uint8Array, data: Uint8Array) => Promise<boolean> | boolean) | null;
  /** Milliseconds since 1970. */
  now?: () => number;
  /** Resolves after that many milliseconds, or when the signal is aborted. */
  wait?: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
}

export interface Storage {
  getItem(key: string): Promise<string | null> | string | null;
  setItem(key: string, value: string): Promise<unknown> | unknown;
  removeItem(key: string): Promise<unknown> | unknown;
}

export interface Key {
  kty: string;
  crv?: string;
  kid?: string;
  x?: string;
  y?: string;
  [member: string]: unknown;
}

/**
 * - `known`: the service said so within the hour.
 * - `old`: it said so within seven days, and cannot be asked.
 * - `unknown`: not "free". The app decides.
 *
 * The object is the same while nothing changes.
 */
export type State =
  | { readonly kind: "known" | "old"; readonly access: Access; /** When the service said so. */ readonly since: Date }
  | { readonly kind: "unknown"; readonly access: null; readonly since: null };

export interface Access {
  readonly user: string;
  readonly tier: string;
  readonly status: "active" | "grace_period" | "cancelled" | "expired" | (string & {});
  readonly environment: "production" | "sandbox" | (string & {}) | null;
  /** When access ends as far as is known; null for life, and where there is none. */
  readonly accessUntil: Date | null;
  readonly features: { readonly [name: string]: boolean | Feature };
  /** Whether the token's signature was checked. */
  readonly verified: boolean;
}

export interface Feature {
  readonly allowed: boolean;
  /** null: unlimited. */
  readonly limit: number | null;
  readonly remaining: number | null;
}

/** The answer to a consumption. */
export interface Usage extends Feature {
  readonly feature: string;
  readonly tier: string;
  readonly kind: string;
  readonly current: number | null;
  readonly resets_at: string | null;
  readonly upgrade_to: string | null;
}

export interface TrialOptions {
  device_id: string;
  trial?: string;
  device?: { model?: string; ios_version?: string; app_version?: string };
  push_token?: string;
  device_token?: string;
  second_device_token?: string;
  development?: boolean;
}

export interface Trial {
  readonly trial: string;
  readonly tier: string;
  readonly state: "running" | "used_up" | "over" | "converted" | (string & {});
  readonly started_at: string;
  readonly expires_at: string;
  readonly sessions_total: number | null;
  readonly sessions_used: number;
  readonly sessions_remaining: number | null;
}

export interface Posted {
  readonly state: State;
  /** Recorded: finish these transactions, and no others. */
  readonly done: readonly string[];
  /** Not taken, and not posted again. */
  readonly refused: ReadonlyArray<{ jws: string; error: CountersignError }>;
  /** Kept, and posted again later. With the code `not_found_yet` the service has answered, and knows no such purchase yet. */
  readonly kept: ReadonlyArray<{ jws: string; error: CountersignError }>;
}

export interface Client {
  readonly state: State;
  readonly access: Access | null;
  /** Why the last refresh failed; null after one that did not. */
  readonly error: CountersignError | null;
  /** `state`, for `useSyncExternalStore`. */
  getSnapshot(): State;
  /** Reads memory only. null while the state is unknown: `isAllowed("filters") ?? false`. */
  isAllowed(feature: string): boolean | null;
  /** Calls the listener after each change of the state or the error. Returns what ends it. */
  subscribe(listener: (state: State) => void): () => void;
  /** Reads the cache, and returns its state. Then refreshes once, and posts what was kept. Rejects never. */
  start(): Promise<State>;
  /** Asks the service. Callers at the same time share one request. Rejects with a `CountersignError`. */
  refresh(): Promise<State>;
  /**
   * Posts a signed transaction, and returns the state that it caused. Finish the transaction then, and only then. If the
   * refresh after it fails, the state is the older one and `error` is set; the purchase is recorded all the same.
   */
  purchase(jws: string): Promise<State>;
  /** Posts several. What became of each is in the result, so it rejects never. */
  restore(list: Iterable<string>, onProgress?: (progress: { completed: number; total: number }) => void): Promise<Posted>;
  /** Posts now what was kept. */
  retry(): Promise<Posted>;
  /**
   * Consumes a meter. Counted once, however often it is tried again after `later`. `allowed` in the answer is about this
   * amount; `isAllowed` then tells whether anything remains.
   */
  consume(feature: string, amount?: number): Promise<Usage>;
  startTrial(options: TrialOptions): Promise<Trial>;
  /**
   * The user's variant of an experiment, as the service has it; null for an experiment that its catalog lacks. Rejects while
   * the service is away: show the variant that you would show without an experiment.
   */
  variant(experiment: string): Promise<string | null>;
  /** Reports that the user saw a variant. The first report of a user is kept: call it each time the app shows one. */
  noteExposure(experiment: string, variant: string): Promise<void>;
  /** Forgets the token and ends the client. Purchases that were not posted stay for the user's next client. */
  signOut(): Promise<void>;
  /** Ends what is done in the background. */
  close(): void;
}

export function createClient(options: ClientOptions): Client;

export type ErrorKind = "cancelled" | "pending" | "refused" | "later" | "signedOut";

export class CountersignError extends Error {
  constructor(kind: ErrorKind, code: string, message: string, more?: { status?: number; problem?: unknown; retryAfter?: number });
  readonly name: "CountersignError";
  readonly kind: ErrorKind;
  /** A problem's code, or `network`, `bad_answer`, `not_found_yet`, `untrusted_token`, `unauthenticated`. */
  readonly code: string;
  /** 0 where there was no answer. */
  readonly status: number;
  /** The problem as the service sent it. */
  readonly problem: { readonly [member: string]: unknown } | null;
  /** Seconds; 0 where the service did not say. */
  readonly retryAfter: number;
}
