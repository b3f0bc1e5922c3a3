// An Edge Function that forwards a receipt of a signed-in Supabase user to Countersign, with a service key that stays here.
// An app can post to Countersign itself, and then needs none of this; it is for apps that call a function already.
//
//   POST {"receipt_data": "<signed transaction or receipt>", "transaction_id": "<to finish>"} with the user's token.
//   Secrets: COUNTERSIGN_URL, COUNTERSIGN_KEY.
//
// The app finishes the transaction after a 200 or a 202 without `"transaction_found": false`, and only then. So nothing but
// Countersign's own answer about this purchase is one of these; whatever goes wrong here is a 503, and the app keeps the
// purchase and posts it again. deno.json beside it says where `countersign/server` is.

import { createClient } from '@supabase/supabase-js';
import { CountersignError, validate } from 'countersign/server';

const LONGEST = 1_048_576;
const DEADLINE = 25_000;
const supabase = createClient(Deno.env.get('SUPABASE_URL') ?? '', Deno.env.get('SUPABASE_ANON_KEY') ?? '', {
  auth: { persistSession: false, autoRefreshToken: false },
});

Deno.serve(async (request: Request): Promise<Response> => {
  try {
    if (request.method !== 'POST') return problem(405, 'method_not_allowed', 'POST a receipt.');
    const signal = AbortSignal.timeout(DEADLINE);
    const token = /^Bearer (\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1];
    if (!token) return problem(401, 'unauthenticated', 'Sign in, and send the token.');

    // The user is whom Supabase says the token is of, and never what a body says.
    const { data, error } = await within(supabase.auth.getUser(token), signal);
    if (error && (error.status === undefined || error.status >= 500 || error.status === 429 || error.status === 0)) {
      return later('Users cannot be checked at present.');
    }
    if (!data?.user) return problem(401, 'unauthenticated', 'Sign in, and send the token.');

    const text = await within(read(request), signal);
    if (text === null) return problem(413, 'payload_too_large', 'The body is too large.');
    const { receipt_data: receipt, transaction_id } = parse(text) ?? {};
    if (typeof receipt !== 'string') return problem(400, 'malformed_request', 'receipt_data is missing.');

    const { status, verdict } = await validate({ user_id: data.user.id, receipt_data: receipt, transaction_id }, {
      baseURL: Deno.env.get('COUNTERSIGN_URL') ?? '',
      key: Deno.env.get('COUNTERSIGN_KEY') ?? '',
      signal,
    });
    return Response.json(verdict, { status });
  } catch (error) {
    if (!(error instanceof CountersignError)) {
      console.error('countersign:', (error as Error).name);
      return later('The receipt cannot be validated at present.');
    }
    if (error.kind === 'refused') {
      const headers = { 'content-type': 'application/problem+json' };
      return Response.json(error.problem, { status: error.status, headers });
    }
    console.error('countersign: status', error.status, error.code);
    return later('The receipt cannot be validated at present.', error.retryAfter);
  }
});

/** The body, or null where it is too long. */
async function read(request: Request): Promise<string | null> {
  if (Number(request.headers.get('content-length')) > LONGEST) return null;
  const decoder = new TextDecoder();
  let size = 0;
  let text = '';
  const reader = request.body?.getReader();
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    size += part.value.length;
    if (size > LONGEST) return null;
    text += decoder.decode(part.value, { stream: true });
  }
  return text;
}

function within<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return Promise.race([
    work,
    new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true })),
  ]);
}

// deno-lint-ignore no-explicit-any
function parse(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function later(detail: string, retryAfter = 0): Response {
  return problem(503, 'unavailable', detail, { 'retry-after': `${retryAfter || 30}` });
}

function problem(status: number, code: string, detail: string, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify({ code, detail, status, retryable: status >= 500 }), {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
  });
}
