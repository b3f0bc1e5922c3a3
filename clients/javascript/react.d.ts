import type { ReactElement, ReactNode } from "react";
import type { Hooks, ProviderProps } from "./hooks.js";

export type { FeatureState, Links, UpgradePrompt } from "./hooks.js";

/** Makes the user's client, asks again when the app comes back, and closes it when the user has gone. */
export function CountersignProvider(props: ProviderProps<ReactNode>): ReactElement;
export const useClient: Hooks["useClient"];
export const useAccess: Hooks["useAccess"];
export const useFeature: Hooks["useFeature"];
export const usePlanThatLifts: Hooks["usePlanThatLifts"];
export const useUpgradePrompt: Hooks["useUpgradePrompt"];
export const useLinkAfterSignIn: Hooks["useLinkAfterSignIn"];
