export { CountersignError } from "./countersign.js";

export interface Purchase {
  /** The ID of the user, as your server knows it, and never as a body says it. */
  user_id: string;
  /** A signed transaction of StoreKit 2, or a receipt in base64. */
  receipt_data: string;
  /** The transaction that the app wants to finish. */
  transaction_id?: string;
}

export interface ServerOptions {
  /** Where the service is, as `https://countersign.example.com`. */
  baseURL: string;
  /** A key of the role `service`. It stays on the server. */
  key: string;
  /** Ends the wait; after 30 seconds without it. */
  signal?: AbortSignal;
  fetch?: (url: string, options: RequestInit) => Promise<Response>;
}

export interface Verdict {
  readonly user_id: string;
  readonly tier: string;
  readonly status: "active" | "grace_period" | "cancelled" | "expired" | (string & {});
  readonly reason: string;
  /** null where no `transaction_id` was posted; false: the app keeps the transaction. */
  readonly transaction_found: boolean | null;
  readonly profile_write: string;
  /** As the service's contract has it, `openapi.yaml`. */
  readonly [member: string]: unknown;
}

/**
 * Posts a user's purchase. The status is 200, or 202 where something is still under way. Rejects with a `CountersignError`:
 * `refused` with the service's problem, or `later`, and the app keeps the purchase.
 */
export function validate(purchase: Purchase, options: ServerOptions): Promise<{ status: 200 | 202; verdict: Verdict }>;
