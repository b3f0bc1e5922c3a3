import type { Client, Package, Period, Plan, Plans, Posted } from "./countersign.js";

/** The sentences of a paywall. */
export interface Words {
  /** `per month`, `for 6 months`. */
  per(period: Period): string;
  /** `$4.99 per month`; without `per` it is paid once. */
  price(price: string, per: string | null): string;
  /** `1 week free, then $4.99 per month`. */
  free(length: string, then: string): string;
  introductory(price: string, length: string, then: string): string;
  /** `1 week`. */
  length(period: Period): string;
  /** A subscription renews by itself; the review of the App Store wants it said beside the price. */
  readonly renewal: string;
  feature(name: string, limit: number | null): string;
  readonly success: string;
  /** The service has recorded the purchase, and the state after it is not known yet. */
  readonly recorded: string;
  readonly restored: string;
  readonly nothing: string;
  readonly pending: string;
  readonly later: string;
  readonly away: string;
  readonly refused: string;
  /** The service is away while it is to sign an offer: no sheet is shown. */
  readonly offer_not_signed: string;
  readonly product_unavailable: string;
  readonly store_unreachable: string;
  /** Also for an error that is no `CountersignError`. */
  readonly store_error: string;
  readonly owned_by_another_user: string;
  readonly signedOut: string;
}
export const english: Words;

/** The price in the store's words with its period, and before it what this customer may have; null without a product. */
export function priceLine(item: Pick<Package, "product" | "period">, words?: Words): string | null;
/** What a plan has of the features that `names` gives a name for people, in the order of `names`. */
export function featureLines(
  plan: Plan | null, names: { readonly [feature: string]: string }, words?: Words,
): ReadonlyArray<{ readonly name: string; readonly text: string }>;
/** The lowest plan above a tier that has a feature, or more of it; null where none has. */
export function planThatLifts(plans: Pick<Plans, "plans">, feature: string, tier: string): Plan | null;
/** A sentence for people; null for what the user did. */
export function sentence(error: unknown, words?: Words): string | null;

export interface PaywallState {
  /** `failed` and `idle` may have a message: a purchase that waits for an approval has not failed. */
  readonly phase: "idle" | "loading_offerings" | "purchasing" | "verifying" | "success" | "failed" | "cancelled";
  /** The packages of the current offering that the store sells. */
  readonly packages: readonly Package[];
  /** The user's variant of the experiment. */
  readonly variant: string | null;
  /** Of the purchase that is under way, or was the last one. */
  readonly productID: string | null;
  readonly message: string | null;
}

export interface PaywallOptions {
  client: Pick<Client, "error" | "offerings" | "track" | "noteExposure">;
  /** Buys a product, and resolves when the service has recorded it. `expoPurchases` of `countersign/expo` has both. */
  buy(productID: string, how: { verifying: () => void; kind?: string | null }): Promise<unknown>;
  restore(how: { verifying: () => void }): Promise<Pick<Posted, "done" | "refused" | "kept">>;
  /** An experiment whose variants are named after offerings. */
  experiment?: string;
  /** Where it was opened, for the events. */
  source?: string;
  words?: Partial<Words>;
  now?: () => number;
}

/** The states of a paywall, for any view. The usual events are reported by it. */
export interface Paywall {
  /** The same object while nothing changes. */
  getSnapshot(): PaywallState;
  subscribe(listener: () => void): () => void;
  readonly words: Words;
  load(): Promise<void>;
  /** Neither rejects. While something is under way they do nothing. */
  buy(item: Pick<Package, "productID"> & Partial<Pick<Package, "kind">>): Promise<void>;
  restore(): Promise<void>;
  /** Call it when the view is closed. */
  dismiss(): void;
}

export function createPaywall(options: PaywallOptions): Paywall;
