import type { Client, ClientOptions, Feature, Plans, StoreProduct } from "./countersign.js";

/**
 * What the user of a preview has: nothing, a subscription that renews, a free period at the store, a trial of the app's own with
 * five sessions, a payment that failed, a subscription that ends in two days or has ended, or a service that was never asked.
 */
export type Preview = "free" | "pro" | "trial" | "appTrial" | "grace" | "ending" | "expired" | "unknown";

export interface PreviewContent {
  /** By name. */
  features?: { readonly [name: string]: boolean | Feature };
  /** A free tier and a paid one with two products, where it is left out. */
  plans?: Plans;
  products?: readonly StoreProduct[];
}

/** The settings of a client without a store and a service, also for `CountersignProvider`. Purchases succeed. */
export function previewOptions(preview?: Preview, content?: PreviewContent): ClientOptions;
/** A started client of them. Its state is there after one turn of the event loop. */
export function preview(preview?: Preview, content?: PreviewContent): Client;
