import type { Client, State } from "./countersign.js";

export interface FeatureState {
  readonly kind: State["kind"];
  /** null while the state is unknown. */
  readonly allowed: boolean | null;
  readonly limit: number | null;
  readonly remaining: number | null;
}

/** Makes the hooks from your React, 18 or later. */
export function createHooks(React: {
  useSyncExternalStore<T>(subscribe: (changed: () => void) => () => void, snapshot: () => T, serverSnapshot?: () => T): T;
}): {
  useAccess(client: Client): State;
  useFeature(client: Client, name: string): FeatureState;
};
