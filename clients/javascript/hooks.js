// @ts-self-types="./hooks.d.ts"
// A provider and hooks over the client, for React and what is like it. `countersign/react` has them of React itself.
import { createClient } from "./countersign.js";

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
		const [client, setClient] = useState(null);
		const latest = useRef(options);
		latest.current = options;
		useEffect(() => {
			if (!user) return;
			const made = createClient({ ...latest.current, user, token: (how) => latest.current.token(how) });
			const leave = onForeground(() => void made.refresh().catch(() => {}));
			setClient(made);
			made.start();
			return () => {
				leave();
				made.close();
				setClient(null);
			};
		}, [user]);
		return createElement(Context.Provider, { value: client }, children);
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

	return { CountersignProvider, useClient, useAccess, useFeature };
}

// Of a browser's page. Elsewhere nothing tells.
function onVisible(returned) {
	const page = globalThis.document;
	const listener = () => page.hidden || returned();
	page?.addEventListener?.("visibilitychange", listener);
	return () => page?.removeEventListener?.("visibilitychange", listener);
}
