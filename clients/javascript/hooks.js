// @ts-self-types="./hooks.d.ts"
// A provider and hooks over the client, for React and what is like it. `countersign/react` has them of React itself.
import { createClient, Event } from "./countersign.js";
import { planThatLifts } from "./paywall.js";

const unknown = { kind: "unknown", access: null, since: null };
const none = {
	subscribe: () => () => {},
	getSnapshot: () => unknown,
	isAllowed: () => null,
};

export function createHooks({ createContext, createElement, useContext, useEffect, useRef, useState, useSyncExternalStore }) {
	const Context = createContext(null);

	/** Makes the user's client, asks again when the app comes back, and closes it when the user has gone. */
	function CountersignProvider({ user, options, onForeground = onVisible, children }) {
		const [made, setMade] = useState(null);
		const latest = useRef(options);
		latest.current = options;
		useEffect(() => {
			if (!user) return;
			const client = createClient({ ...latest.current, user, token: (how) => latest.current.token(how) });
			const leave = onForeground(() => void client.refresh().catch(() => {}));
			setMade({ user, client });
			client.start();
			return () => {
				leave();
				client.close();
				setMade(null);
			};
		}, [user]);
		// The effect runs after the rendering under the next user.
		return createElement(Context.Provider, { value: made?.user === user ? made.client : null }, children);
	}

	/** The client; null while nobody is signed in, and at the first rendering. */
	const useClient = () => useContext(Context);

	/** The client's state; renders again when it changes. */
	function useAccess() {
		const { subscribe, getSnapshot } = useClient() ?? none;
		return useSyncExternalStore(subscribe, getSnapshot, getSnapshot);
	}

	/** One feature of it: `{ kind, allowed, limit, remaining }`. `allowed` is null while the state is unknown. */
	function useFeature(name) {
		const { kind, access } = useAccess();
		const { isAllowed } = useClient() ?? none;
		const feature = access?.features[name];
		const { limit = null, remaining = null } = typeof feature === "object" ? feature : {};
		return { kind, allowed: isAllowed(name), limit, remaining };
	}

	/** The plan that lifts a feature's limit for this user; null where none does, and while it is not known. */
	function usePlanThatLifts(feature) {
		const client = useClient();
		const { access } = useAccess();
		const [plans, setPlans] = useState(null);
		useEffect(() => {
			let isCurrent = true;
			client?.plans().then((all) => isCurrent && setPlans(all), () => {});
			return () => {
				isCurrent = false;
			};
		}, [client]);
		return plans && access ? planThatLifts(plans, feature, access.tier) : null;
	}

	/** A prompt where a limit is reached. `check()` is true where the feature may be used, and else shows it. */
	function useUpgradePrompt(feature) {
		const client = useClient();
		const { limit, remaining } = useFeature(feature);
		const plan = usePlanThatLifts(feature);
		const [isShown, setShown] = useState(false);
		const tell = (type) => void client?.track(type, { feature, limit, remaining, plan: plan?.tier }).catch(() => {});
		const answer = (type) => () => {
			if (isShown) tell(type);
			setShown(false);
		};
		function show() {
			if (!isShown) tell(Event.upgradePromptShown);
			setShown(true);
		}
		function check(ifUnknown = false) {
			if (client?.isAllowed(feature) ?? ifUnknown) return true;
			tell(Event.limitReached);
			show();
			return false;
		}
		const [accept, dismiss] = [answer(Event.upgradePromptAccepted), answer(Event.upgradePromptDismissed)];
		return { isShown, plan, limit, remaining, check, show, accept, dismiss };
	}

	/** Keeps the newest link until somebody is signed in, and opens it then, once. */
	function useLinkAfterSignIn({ initial, listen, open }) {
		const client = useClient();
		const [link, setLink] = useState(null);
		useEffect(() => {
			let isCurrent = true;
			const keep = (url) => isCurrent && url && setLink(url);
			Promise.resolve(initial?.()).then(keep, () => {});
			const leave = listen(keep);
			return () => {
				isCurrent = false;
				leave();
			};
		}, []);
		useEffect(() => {
			if (!client || !link) return;
			setLink(null);
			open(link);
		}, [client, link]);
	}

	return { CountersignProvider, useClient, useAccess, useFeature, usePlanThatLifts, useUpgradePrompt, useLinkAfterSignIn };
}

// Of a browser's page. Elsewhere nothing tells.
function onVisible(returned) {
	const page = globalThis.document;
	const listener = () => page.hidden || returned();
	page?.addEventListener?.("visibilitychange", listener);
	return () => page?.removeEventListener?.("visibilitychange", listener);
}
