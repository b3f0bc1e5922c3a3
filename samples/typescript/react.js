// Hooks over the client. React is given, so that nothing is imported that is not there:
//   export const { useAccess, useFeature } = createHooks(React);

export function createHooks({ useSyncExternalStore }) {
  /** The client's state; renders again when it changes. */
  function useAccess(client) {
    return useSyncExternalStore(client.subscribe, client.getSnapshot, client.getSnapshot);
  }

  /** One feature of it: `{ kind, allowed, limit, remaining }`. `allowed` is null while the state is unknown. */
  function useFeature(client, name) {
    const { kind, access } = useAccess(client);
    const feature = access?.features[name];
    const { limit = null, remaining = null } = typeof feature === "object" ? feature : {};
    return { kind, allowed: client.isAllowed(name), limit, remaining };
  }

  return { useAccess, useFeature };
}
