// A route service with a provider that needs a paid plan: a server of the app's own that asks Countersign what the
// caller may do. One file without dependencies, for Supabase's Edge Functions, Deno, Bun, Workers and Node 20.
//
//   GET   which providers there are, and which of them the caller may use
//   POST  {"from": [lon, lat], "to": [lon, lat], "provider": "google"}: a route by that provider, or without "provider"
//         by the best one that the caller may use
//
// The caller's own token is passed on, so this service needs no key of Countersign's and asks about nobody else. Or the app
// sends an access token, GET /v1/profiles/me/token, which is checked here: then nothing is asked about a caller.
// In the catalog: features: { premium_routing_providers: { pro: true } }, as in samples/catalogs/cycling.yaml.

/**
 * Tells a caller's plan: "paid", "free", "unknown" while it cannot be told, or null for a token that is refused.
 *
 * - A yes is asked again after 30 seconds; a no after two, as somebody who has just bought will try at once.
 * - While Countersign is away, whoever had paid keeps the plan for ten minutes from the last answer. Whoever had not is
 *   "unknown" and not "free": they may have bought since.
 * - It waits a second at most. Requests of a caller that come meanwhile share the one question.
 *
 * What is known is kept by the token as a whole. By the user ID in a token it would outlive a new token, but only where
 * somebody has checked its signature before: anybody can write another's ID into one.
 */
export function planReader({
  url,
  feature = "premium_routing_providers",
  deadline = 1_000,
  paidFor = 30_000,
  unpaidFor = 2_000,
  heldFor = 600_000,
  callers = 10_000,
  now = () => performance.now(),
  fetch = globalThis.fetch,
}) {
  const known = new Map();

  async function ask(token) {
    try {
      const response = await fetch(`${url}/v1/profiles/me/access`, {
        headers: { authorization: `Bearer ${token}` },
        redirect: "error",
        signal: AbortSignal.timeout(deadline),
      });
      if (response.status === 401 || response.status === 403) return null;
      if (!response.ok) throw new Error(`status ${response.status}`);
      const allowed = (await response.json()).features?.[feature]?.allowed;
      if (typeof allowed !== "boolean") throw new Error(`no feature ${feature}`);
      return allowed ? "paid" : "free";
    } catch (error) {
      console.error("countersign:", error.message);
      return "unknown";
    }
  }

  async function answer(token, caller) {
    let plan = await ask(token);
    if (plan === "paid") caller.heldUntil = now() + heldFor;
    else if (plan !== "unknown") caller.heldUntil = -Infinity;
    else if (now() < caller.heldUntil) plan = "paid";
    caller.plan = plan;
    caller.askAgain = plan === "paid" ? Math.min(now() + paidFor, caller.heldUntil) : now() + unpaidFor;
    // Tokens that anybody made up take nobody's place.
    if (plan === null) known.delete(token);
    return plan;
  }

  return function plan(token) {
    const caller = known.get(token) ?? { askAgain: -Infinity, heldUntil: -Infinity };
    // Last in the order, so that the first is whoever has not come for longest.
    known.delete(token);
    known.set(token, caller);
    if (known.size > callers) known.delete(known.keys().next().value);
    if (now() < caller.askAgain) return Promise.resolve(caller.plan);
    caller.asking ??= answer(token, caller).finally(() => (caller.asking = undefined));
    return caller.asking;
  };
}

/**
 * Tells a caller's plan from an access token of Countersign's: its signature (ES256), type, end and, where one is configured,
 * audience. The same words as above; "unknown" only while the key that signed cannot be fetched.
 *
 * Keys are fetched once an hour, and for a key that is not known at most once a minute: anybody can name one.
 */
export function accessTokenReader({
  url,
  feature = "premium_routing_providers",
  audience,
  deadline = 1_000,
  keysFor = 3_600_000,
  pause = 60_000,
  now = Date.now,
  fetch = globalThis.fetch,
}) {
  let keys = new Map();
  let fetchedAt = -Infinity;
  let triedAt = -Infinity;
  let fetching;

  async function fetchKeys() {
    triedAt = now();
    try {
      const response = await fetch(`${url}/.well-known/jwks.json`, {
        redirect: "error",
        signal: AbortSignal.timeout(deadline),
      });
      if (!response.ok) throw new Error(`status ${response.status}`);
      const algorithm = { name: "ECDSA", namedCurve: "P-256" };
      const imported = (await response.json()).keys.map(async (jwk) => [
        jwk.kid,
        await crypto.subtle.importKey("jwk", jwk, algorithm, false, ["verify"]),
      ]);
      keys = new Map(await Promise.all(imported));
      fetchedAt = now();
    } catch (error) {
      console.error("countersign:", error.message);
    }
  }

  async function key(kid) {
    const isOld = now() - fetchedAt >= keysFor;
    // Who comes while they are fetched waits too.
    if ((isOld || !keys.has(kid)) && (fetching || now() - triedAt >= pause)) {
      await (fetching ??= fetchKeys().finally(() => (fetching = undefined)));
    }
    return keys.get(kid);
  }

  const bytes = (part) => Uint8Array.from(atob(part.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const json = (part) => JSON.parse(new TextDecoder().decode(bytes(part)));

  return async function plan(token) {
    try {
      const [head, body, signature, ...more] = token.split(".");
      const { alg, typ, kid } = json(head);
      if (more.length > 0 || alg !== "ES256" || typ !== "access+jwt") return null;
      const signedBy = await key(kid);
      // While there has been no answer, the key may be a good one.
      if (!signedBy) return fetchedAt < triedAt ? "unknown" : null;
      const algorithm = { name: "ECDSA", hash: "SHA-256" };
      const signed = new TextEncoder().encode(`${head}.${body}`);
      if (!(await crypto.subtle.verify(algorithm, signedBy, bytes(signature), signed))) return null;
      const { exp, aud, features } = json(body);
      if (!(now() < exp * 1000) || (audience !== undefined && aud !== audience)) return null;
      const allowed = features?.[feature]?.allowed ?? features?.[feature];
      return allowed === true ? "paid" : "free";
    } catch {
      return null;
    }
  };
}

/** Answers requests. Providers come best first; the last ones are free. */
export function routeService({ plan, providers }) {
  return async function handle(request) {
    const token = /^Bearer (\S+)$/i.exec(request.headers.get("authorization") ?? "")?.[1];
    const has = token ? await plan(token) : null;
    if (has === null) return refusal(401, "unauthenticated", "Sign in, and send the token.");
    const mayUse = (provider) => has === "paid" || !provider.requiresPaidPlan;

    if (request.method === "GET") {
      return Response.json({
        plan: has,
        providers: providers.map((each) => ({
          name: each.name,
          requiresPaidPlan: each.requiresPaidPlan,
          available: mayUse(each),
        })),
      });
    }
    if (request.method !== "POST") return refusal(405, "method_not_allowed", "GET or POST.");

    const body = await request.json().catch(() => null);
    if (!isPoint(body?.from) || !isPoint(body?.to)) {
      return refusal(400, "malformed_request", "from and to are [longitude, latitude].");
    }
    const named = providers.find((each) => each.name === body.provider);
    if (body.provider !== undefined && !named) return refusal(400, "unknown_provider", "There is no such provider.");
    // Only where the plan is known: while it is not, there is a free route and no paywall.
    if (has === "free" && named?.requiresPaidPlan) {
      return refusal(403, "upgrade_required", `Routes by ${named.name} are part of a paid plan.`);
    }

    const others = providers.filter((each) => each !== named);
    for (const provider of [named, ...others].filter((each) => each && mayUse(each))) {
      try {
        return Response.json({ provider: provider.name, plan: has, route: await provider.route(body.from, body.to) });
      } catch (error) {
        console.error(`${provider.name}:`, error.message);
      }
    }
    return refusal(502, "no_route", "No provider has a route at present.");
  };
}

function refusal(status, code, message) {
  return Response.json({ code, message }, { status });
}

function isPoint(value) {
  return Array.isArray(value) && value.length === 2 && value.every(Number.isFinite);
}

/** Three providers with one kind of answer: `{distance, duration, geometry}` in metres, seconds and GeoJSON. */
export function standardProviders({ googleKey, mapboxKey, openRouteServiceKey, fetch = globalThis.fetch }) {
  async function json(url, options) {
    const response = await fetch(url, { ...options, signal: AbortSignal.timeout(5_000) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.json();
  }
  const location = ([longitude, latitude]) => ({ location: { latLng: { latitude, longitude } } });

  return [
    {
      name: "google",
      requiresPaidPlan: true,
      async route(from, to) {
        const { routes } = await json("https://routes.googleapis.com/directions/v2:computeRoutes", {
          method: "POST",
          headers: {
            "content-type": "application/json",
            "x-goog-api-key": googleKey,
            "x-goog-fieldmask": "routes.distanceMeters,routes.duration,routes.polyline.geoJsonLinestring",
          },
          body: JSON.stringify({
            origin: location(from),
            destination: location(to),
            travelMode: "BICYCLE",
            polylineEncoding: "GEO_JSON_LINESTRING",
          }),
        });
        const [{ distanceMeters, duration, polyline }] = routes;
        return { distance: distanceMeters, duration: parseFloat(duration), geometry: polyline.geoJsonLinestring };
      },
    },
    {
      name: "mapbox",
      requiresPaidPlan: false,
      async route(from, to) {
        const query = `geometries=geojson&overview=full&access_token=${mapboxKey}`;
        const url = `https://api.mapbox.com/directions/v5/mapbox/cycling/${from};${to}?${query}`;
        const [{ distance, duration, geometry }] = (await json(url)).routes;
        return { distance, duration, geometry };
      },
    },
    {
      name: "openrouteservice",
      requiresPaidPlan: false,
      async route(from, to) {
        const query = `api_key=${openRouteServiceKey}&start=${from}&end=${to}`;
        const url = `https://api.openrouteservice.org/v2/directions/cycling-regular?${query}`;
        const [{ properties, geometry }] = (await json(url)).features;
        return { ...properties.summary, geometry };
      },
    },
  ];
}

// Run as it is by Deno, which Supabase's Edge Functions are; another server calls the functions above.
if (globalThis.Deno) {
  const value = (name) => Deno.env.get(name) ?? "";
  Deno.serve(
    routeService({
      plan: planReader({ url: value("COUNTERSIGN_URL") }),
      providers: standardProviders({
        googleKey: value("GOOGLE_KEY"),
        mapboxKey: value("MAPBOX_KEY"),
        openRouteServiceKey: value("OPENROUTESERVICE_KEY"),
      }),
    }),
  );
}
