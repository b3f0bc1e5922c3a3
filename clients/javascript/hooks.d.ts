import type { Client, ClientOptions, Plan, State } from "./countersign.js";

export interface ProviderProps<Children = unknown> {
  /**
   * The user's ID; null while nobody is signed in. Another user gets another client. At a sign-out call
   * `useClient()?.signOut()` before: what the user may do is forgotten then, and else stays stored for them.
   */
  user: string | null;
  /** The client's settings. `token` may change at each rendering, the rest counts when the client is made. */
  options: Omit<ClientOptions, "user">;
  /**
   * Calls `returned` when the app comes to the foreground, and returns what ends it. A browser's page is heard of without it;
   * in React Native give `AppState`.
   */
  onForeground?: (returned: () => void) => () => void;
  children?: Children;
}

export interface FeatureState {
  readonly kind: State["kind"];
  /** null while the state is unknown. */
  readonly allowed: boolean | null;
  readonly limit: number | null;
  readonly remaining: number | null;
}

export interface UpgradePrompt {
  readonly isShown: boolean;
  /** The lowest plan that lifts the limit; null where none does, and while it is not known. */
  readonly plan: Plan | null;
  readonly limit: number | null;
  readonly remaining: number | null;
  /** True where the feature may be used; else the prompt is shown. `ifUnknown` counts while the state is unknown. */
  check(ifUnknown?: boolean): boolean;
  /** For a `consume` that rejects with `limit_reached`. */
  show(): void;
  /** The user wants the plan: show the paywall. */
  accept(): void;
  dismiss(): void;
}

/** In React Native `Linking`; `listen` returns what ends it. */
export interface Links {
  initial?: () => Promise<string | null> | string | null;
  listen: (opened: (url: string) => void) => () => void;
  open: (url: string) => void;
}

/** They read the client of the nearest provider. */
export interface Hooks {
  /** null while nobody is signed in, and at the first rendering. */
  useClient(): Client | null;
  /** The client's state; renders again when it changes. */
  useAccess(): State;
  useFeature(name: string): FeatureState;
  /** The lowest plan that has a feature, or more of it, than the user's: for a badge. null where none has, and while it is not known. */
  usePlanThatLifts(feature: string): Plan | null;
  /** The prompt at a limit. It reports the usual events. */
  useUpgradePrompt(feature: string): UpgradePrompt;
  /** Keeps the newest link until somebody is signed in, and opens it then, once. */
  useLinkAfterSignIn(links: Links): void;
}

/** Makes the provider and the hooks of your React, 18 or later, or of what is like it. */
export function createHooks<Element, Children>(React: {
  createContext: (value: null) => any;
  createElement: (type: any, props: any, ...children: any[]) => Element;
  useContext: (context: any) => any;
  useEffect: (effect: () => void | (() => void), inputs: any[]) => void;
  useRef: (value: any) => { current: any };
  useState: (value: any) => [any, (value: any) => void];
  useSyncExternalStore: (subscribe: any, snapshot: any, serverSnapshot?: any) => any;
}): Hooks & { CountersignProvider(props: ProviderProps<Children>): Element };
