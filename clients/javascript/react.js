// @ts-self-types="./react.d.ts"
// The provider and the hooks of React, 18 or later.
import * as React from "react";
import { createHooks } from "./hooks.js";

export const { CountersignProvider, useClient, useAccess, useFeature, usePlanThatLifts, useUpgradePrompt, useLinkAfterSignIn } =
	createHooks(React);
