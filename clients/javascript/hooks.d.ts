import type { Client, ClientOptions, State } from "./countersign.js";

export interface ProviderProps<Children = unknown> {
  /** The user's ID; null while nobody is signed in. Another user gets another client. */
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

/** They read the client of the nearest provider. */
export interface Hooks {
  /** null while nobody is signed in, and at the first rendering. */
  useClient(): Client | null;
  /** The client's state; renders again when it changes. */
  useAccess(): State;
  useFeature(name: string): FeatureState;
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
