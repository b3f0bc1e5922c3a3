// The service, and the key to it. The key is in this module and nowhere else.

// One for each key that is typed: an answer to a question of another session is dropped.
let session = {key: null}

export const currentSession = () => session
export const hasKey = () => session.key !== null
export function useKey(key) { session = {key} }

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || `The service answered ${status}.`)
    this.status = status
    this.code = problem.code
    this.requestID = problem.request_id
  }
}

export async function ask(method, path, body, headers = {}) {
  const ending = new AbortController()
  const timer = setTimeout(() => ending.abort(), 30000)
  let response
  try {
    response = await fetch(new URL(path.replace(/^\//, ''), document.baseURI), {
      method, signal: ending.signal, cache: 'no-store', credentials: 'omit', redirect: 'error',
      referrerPolicy: 'no-referrer',
      headers: {Authorization: `Bearer ${session.key}`, ...(body ? {'Content-Type': 'application/json'} : {}), ...headers},
      body: body ? JSON.stringify(body) : undefined,
    })
    const answer = await response.json()
    if (response.ok) return answer
    throw new Refusal(response.status, answer)
  } catch (error) {
    if (error instanceof Refusal) throw error
    throw new Error(response
      ? 'The service answered something that this page cannot read.'
      : 'The service cannot be reached. Nothing may have been done; look the user up again before you repeat it.')
  } finally {
    clearTimeout(timer)
  }
}

/// As `ask`, for what may be asked twice and is done once.
export async function askRepeatably(...request) {
  try { return await ask(...request) } catch (error) {
    if (error instanceof Refusal) throw error
    throw new Error('No answer came, so it may have been done or not. Press the button again: it is not done twice.')
  }
}

/// The address on this page that shows a user. It is never sent to anybody.
export const userLink = (id) => `#user=${encodeURIComponent(id)}`
export const userPath = (id, rest) => `v1/profiles/${encodeURIComponent(id)}${rest ? `/${rest}` : ''}`
/// The owner of a purchase whose user was erased has no name.
export const isErased = (user) => user === '(erased)'
export const transactionPath = (id, rest = '') => `v1/transactions/${encodeURIComponent(id)}${rest}`
