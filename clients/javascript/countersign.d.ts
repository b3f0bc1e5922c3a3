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
  /** The store that sells, for `offerings`, `profile` and `start`. `countersign/expo` makes it of expo-iap. */
  store?: Store;
  /** `trials()` of `countersign/trials`, for an app with trials of its own. */
  trials?: ((parts: TrialParts) => TrialEngine) | null;
  /** Told of each request and each dropped event. No entry has a token or a transaction. */
  log?: (entry: LogEntry) => void;
  /** Milliseconds since 1970. */
  now?: () => number;
  /** Resolves after that many milliseconds, or when the signal is aborted. */
  wait?: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
}

export interface Store {
  /** The products that it sells of these, with its prices. */
  products?(ids: string[]): Promise<readonly StoreProduct[]>;
  /** The signed transactions that the store account owns now. */
  currentEntitlements?(): Promise<Iterable<string>>;
}

export interface LogEntry {
  readonly level: "debug" | "warning";
  readonly message: string;
  readonly [member: string]: unknown;
}

export interface Period {
  readonly count: number;
  readonly unit: "day" | "week" | "month" | "year";
}

/** A product as the store sells it to this customer. */
export interface StoreProduct {
  readonly id: string;
  /** In the customer's language. */
  readonly displayName: string;
  readonly description: string;
  readonly price: number | null;
  /** In the customer's currency and language: `4,99 €`. */
  readonly displayPrice: string;
  readonly currencyCode: string | null;
  /** null for a purchase that does not renew. */
  readonly period: Period | null;
  /** `count` periods, each for `price`. */
  readonly introductoryOffer: {
    readonly mode: "freeTrial" | "payAsYouGo" | "payUpFront" | "unknown";
    readonly price: number;
    readonly displayPrice: string;
    readonly period: Period;
    readonly count: number;
  } | null;
  /** Whether this customer may still have the introductory offer; null where there is none. */
  readonly isEligibleForIntroductoryOffer: boolean | null;
}

/** A tier, as `GET /v1/plans` has it. */
export interface Plan {
  readonly tier: string;
  readonly name: string;
  readonly description: string | null;
  readonly features: {
    readonly [name: string]: {
      readonly kind: string; readonly included: boolean; readonly limit: number | null; readonly rules: readonly string[];
    };
  };
  readonly products: ReadonlyArray<{
    readonly product_id: string; readonly kind: string; readonly period: string | null; readonly prices: { readonly [currency: string]: string };
  }>;
}

/** `GET /v1/plans`. */
export interface Plans {
  /** Every tier, ascending. */
  readonly plans: readonly Plan[];
  readonly offerings: ReadonlyArray<{
    readonly name: string;
    readonly packages: ReadonlyArray<{ readonly name: string; readonly product_id: string }>;
    readonly metadata: { readonly [name: string]: unknown };
  }>;
  readonly current_offering: string | null;
}

/** A product in its place on a paywall. */
export interface Package {
  /** `$rc_monthly`, or any other. */
  readonly name: string;
  readonly productID: string;
  /** The tier that it gives; null where the catalog has no such product. */
  readonly plan: Plan | null;
  readonly kind: string | null;
  /** The store's, else the catalog's. */
  readonly period: Period | null;
  /** The store's price and words; null where the store does not sell it, or cannot be reached. */
  readonly product: StoreProduct | null;
}

export interface Offering {
  readonly name: string;
  readonly metadata: { readonly [name: string]: unknown };
  readonly packages: readonly Package[];
}

export interface Offerings {
  readonly all: readonly Offering[];
  /** The offering to show; null where the catalog has none. */
  readonly current: Offering | null;
  /** The user's variant of the experiment that was named, for `noteExposure`. */
  readonly variant: string | null;
}

/** The verdict with what a settings page shows. */
export interface Profile {
  readonly tier: string;
  readonly status: Access["status"];
  readonly reason: string;
  readonly productID: string | null;
  /** null where Apple did not say. */
  readonly willRenew: boolean | null;
  readonly isTrial: boolean;
  readonly expiresAt: Date | null;
  readonly accessUntil: Date | null;
  /** When a commitment that is paid by the month ends; null without one. */
  readonly commitmentExpiresAt: Date | null;
  /** The tier's name for people; the tier itself where it is not known. */
  readonly tierName: string;
  /** In the store's words; null where it is not known. */
  readonly productName: string | null;
  readonly period: Period | null;
  /** When the store charges next; null where it does not. */
  readonly nextBillingAt: Date | null;
  /** When access ends, or has ended, because nothing renews it. */
  readonly endsAt: Date | null;
  /** A banner's content: `endsSoon` from three days before. */
  readonly notice: { readonly kind: "paymentFailed"; readonly at: Date | null } | { readonly kind: "endsSoon" | "ended"; readonly at: Date } | null;
  /** A button's purpose. */
  readonly suggestion: "subscribe" | "resubscribe" | "updatePayment" | null;
  /** Whether the service could not be asked, and this is its last answer. */
  readonly isOld: boolean;
  /** The service's answer. */
  readonly answer: { readonly [member: string]: unknown };
}

/** The usual events of a paywall. */
export const Event: {
  readonly paywallViewed: "paywall_viewed";
  readonly paywallDismissed: "paywall_dismissed";
  readonly planSelected: "plan_selected";
  readonly purchaseInitiated: "purchase_initiated";
  readonly purchaseCompleted: "purchase_completed";
  readonly purchaseFailed: "purchase_failed";
  readonly purchaseCancelled: "purchase_cancelled";
  readonly trialStarted: "trial_started";
  readonly restoreInitiated: "restore_initiated";
  readonly restoreCompleted: "restore_completed";
  readonly upgradePromptShown: "upgrade_prompt_shown";
  readonly upgradePromptAccepted: "upgrade_prompt_accepted";
  readonly upgradePromptDismissed: "upgrade_prompt_dismissed";
  readonly limitReached: "limit_reached";
};

/** What a support ticket needs. It has no token, no transaction and no receipt. */
export interface Diagnosis {
  /** `javascript/0.1.0`. */
  readonly client: string;
  readonly service: string;
  readonly user: string;
  readonly at: Date;
  readonly state: State["kind"];
  readonly tier: string | null;
  readonly status: string | null;
  readonly since: Date | null;
  readonly verified: boolean | null;
  readonly waitingPurchases: number;
  readonly waitingSessions: number;
  readonly waitingEvents: number;
  readonly droppedEvents: number;
  /** The seconds by which the service's clock is ahead of the device's; null before the first answer. */
  readonly clockDifference: number | null;
  /** The keys that a token is checked with, and whether the app pins them. */
  readonly keyIDs: readonly (string | undefined)[];
  readonly arePinned: boolean;
  /** The code of the last refresh's error. */
  readonly error: string | null;
  /** The last ten answers, the newest at the end. A status of 0: there was none. */
  readonly answers: ReadonlyArray<{
    readonly at: Date; readonly request: string; readonly status: number; readonly code: string | null; readonly requestID: string | null;
  }>;
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
  /** Whether one more is allowed now; `allowed` is about the amount. */
  readonly more_allowed: boolean;
  readonly current: number | null;
  readonly resets_at: string | null;
  readonly upgrade_to: string | null;
}

/** The offers that a user may have now. */
export interface Offers {
  readonly promotional: ReadonlyArray<{ readonly product_id: string; readonly offer_id: string }>;
  /** The products for which the service's catalog decides. */
  readonly introductory: ReadonlyArray<{ readonly product_id: string; readonly allowed: boolean }>;
  /** The win-back offers that Apple grants the customer, the best first. */
  readonly win_back: ReadonlyArray<{
    readonly offer_id: string; readonly product_id: string | null; readonly original_transaction_id: string; readonly environment: string;
  }>;
}

/** A promotional offer, signed for one purchase. */
export interface PromotionalOffer {
  readonly product_id: string;
  readonly offer_id: string;
  readonly jws: string;
  /** The former form. The purchase has to have the account token that it names, or none. */
  readonly signature: {
    readonly key_id: string; readonly nonce: string; /** Milliseconds since 1970. */ readonly timestamp: number;
    readonly signature: string; readonly app_account_token: string | null;
  };
}

/** Whether a user gets the introductory offer, signed for one purchase. */
export interface IntroductoryOffer {
  readonly product_id: string;
  readonly allowed: boolean;
  readonly jws: string;
}

/** What an app says of its device, all of it optional. */
export interface DeviceOptions {
  device?: { model?: string; ios_version?: string; app_version?: string };
  push_token?: string;
  /** In base64; `deviceToken` of `trials()` makes both. */
  device_token?: string;
  second_device_token?: string;
  /** The tokens are those of a development build. */
  development?: boolean;
}

export interface TrialOptions extends DeviceOptions {
  /** Its name; needed where the service has several. */
  trial?: string;
}

export interface Trial {
  readonly trial: string;
  readonly tier: string;
  readonly state: "running" | "used_up" | "over" | "converted" | (string & {});
  readonly started_at: string;
  readonly expires_at: string;
  readonly sessions_total: number | null;
  /** With the sessions that wait. */
  readonly sessions_used: number;
  readonly sessions_remaining: number | null;
}

/** Between a client and `countersign/trials`. */
export interface TrialParts {
  readonly request: (...all: any[]) => Promise<any>;
  /** The name under which the trial is stored. */
  readonly place: string;
  readonly storage: Storage;
  readonly now: () => number;
  readonly wait: (milliseconds: number, signal?: AbortSignal) => Promise<void>;
}
export interface TrialEngine {
  readonly waitingCount: number;
  start(options?: TrialOptions): Promise<Trial>;
  trial(): Promise<Trial | null>;
  useSession(): Promise<Trial>;
  register(options?: DeviceOptions): Promise<Trial | null>;
  sync(): Promise<void>;
}

export interface Posted {
  readonly state: State;
  /** Recorded: finish these transactions, and no others. */
  readonly done: readonly string[];
  /** Not taken, and not posted again. */
  readonly refused: ReadonlyArray<{ jws: string; error: CountersignError }>;
  /**
   * Kept, and posted again later. With the code `not_found_yet` the service has answered, and knows no such purchase yet.
   * With `not_yours_yet` it may be another user's: it is not kept, and the store hands it over again.
   */
  readonly kept: ReadonlyArray<{ jws: string; error: CountersignError }>;
}

export interface Client {
  readonly state: State;
  readonly access: Access | null;
  /** The number of purchases that wait to be posted. */
  readonly waitingCount: number;
  /** Why the last refresh failed; null after one that did not. */
  readonly error: CountersignError | null;
  /** `state`, for `useSyncExternalStore`. */
  getSnapshot(): State;
  /** Reads memory only. null while the state is unknown: `isAllowed("filters") ?? false`. */
  isAllowed(feature: string): boolean | null;
  /** Calls the listener after each change of the state or the error. Returns what ends it. */
  subscribe(listener: (state: State) => void): () => void;
  /**
   * Reads the cache, and returns its state. Then refreshes once, and posts what was kept, and what the store's entitlements have
   * and the tier does not show. Rejects never.
   */
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
   * amount; `isAllowed` then tells whether one more is.
   */
  consume(feature: string, amount?: number): Promise<Usage>;
  /** The catalog for a paywall, asked for once in five minutes at most. While the service is away the last answer counts. */
  plans(): Promise<Plans>;
  /**
   * The products of a paywall with the store's prices. With an experiment whose variants are named after offerings the user's
   * variant is the current one; report it with `noteExposure`.
   */
  offerings(options?: { experiment?: string }): Promise<Offerings>;
  /** The verdict for a settings page. Show access by `isAllowed`, and not by this: it is not signed. */
  profile(): Promise<Profile>;
  /**
   * Reports what the user did. The event is stored when this returns, and delivered within seconds, or when the service is back.
   * Of more than a thousand the oldest are dropped, and `diagnose` counts them; so is one with more than 8 KiB of properties,
   * or with a name that is not 1 to 64 letters, digits and `_`, a letter first.
   */
  track(name: string, properties?: { readonly [name: string]: unknown }): Promise<void>;
  /** Delivers the events that wait. Call it when the app goes to the background. Rejects with a `CountersignError`. */
  flush(): Promise<void>;
  /** Gathers what a support ticket needs. Makes no request. */
  diagnose(): Diagnosis;
  /** The offers that the user may have now: by the service's catalog, and the win-back offers that Apple named. */
  offers(): Promise<Offers>;
  /** Signs a promotional offer by its identifier in App Store Connect. `buy` of `countersign/expo` does it by itself. */
  signPromotionalOffer(productID: string, offerID: string): Promise<PromotionalOffer>;
  /**
   * Signs whether the user gets the introductory offer, by the service's catalog. Of a user who has bought nothing Apple wants
   * the app transaction ID.
   */
  signIntroductoryOffer(productID: string, transactionID?: string): Promise<IntroductoryOffer>;
  /**
   * Begins a trial of the app's own. A user who has one gets it again, and the trial that the device had before the sign-in
   * becomes the user's. This and the next three need `trials` of the settings.
   */
  startTrial(options?: TrialOptions): Promise<Trial>;
  /** The user's trial; null where none has begun. While the service is away it is what is known without it. */
  trial(): Promise<Trial | null>;
  /**
   * Uses a session; the last one ends the trial. While the service is away a running trial goes on: the session is kept, and
   * counted once when the service is back. Rejects with the code `trial_over` where none is left.
   */
  useTrialSession(): Promise<Trial>;
  /** Tells the service of this device and its push token, so that it shares the user's trial. */
  registerDevice(options: DeviceOptions): Promise<Trial | null>;
  /**
   * The user's variant of an experiment, as the service has it; null for an experiment that its catalog lacks. Rejects while
   * the service is away: show the variant that you would show without an experiment.
   */
  variant(experiment: string): Promise<string | null>;
  /**
   * Reports that the user saw a variant. The first report of a user is kept: call it each time the app shows one. Where it
   * rejects with `later`, the report is kept as `track` keeps events.
   */
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
  /** A problem's code, or `network`, `bad_answer`, `not_found_yet`, `not_yours_yet`, `untrusted_token`, `unauthenticated`. */
  readonly code: string;
  /** 0 where there was no answer. */
  readonly status: number;
  /** The problem as the service sent it. */
  readonly problem: { readonly [member: string]: unknown } | null;
  /** Seconds, a day at most; 0 where the service did not say. */
  readonly retryAfter: number;
}
