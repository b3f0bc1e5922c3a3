// A verdict, and the notes of people beside it.

import {product} from './catalog.js'
import {bdi, el, list, time, words} from './elements.js'
import {showMessage} from './forms.js'

const isTakenBack = (state) => state.reason === 'refunded' || state.reason === 'revoked'
export const isGiven = (state) => Boolean(state.decision && state.decision.grant_id)
export const endName = (state) => isTakenBack(state) ? 'Taken back on' : isGiven(state) ? 'Given until' : 'Paid until'

export function kind(state) {
  if (state.status === 'grace_period') return 'warn'
  if (state.status === 'expired') return 'bad'
  return state.status === 'active' && (state.original_transaction_id || isGiven(state)) ? 'good' : ''
}

/// - Parameters:
///   - periods: what was bought, where it is at hand.
///   - why: in place of the explanation.
export function stateParts(state, periods = [], why = null) {
  const takenBack = isTakenBack(state) && state.decision
    && periods.find((period) => period.transaction_id === state.decision.transaction_id)
  const rows = [
    [endName(state), state.expires_at && time(state.expires_at)],
    ['Had been paid until', takenBack && takenBack.ends_at && time(takenBack.ends_at)],
    ['Access until', state.access_until && time(state.access_until)],
    ['Commitment until', state.commitment_expires_at && time(state.commitment_expires_at)],
    ['Product', state.product_id && product(state.product_id)],
    ['Next product', state.next_product_id && product(state.next_product_id)],
    ['Original transaction', state.original_transaction_id && bdi(state.original_transaction_id)],
    ['Environment', state.environment],
    ['Confirmed by Apple', state.evidence_at && time(state.evidence_at)],
  ]
  return [
    el('p', {class: 'state'},
      el('span', {class: 'tier'}, state.tier),
      el('span', {class: `pill ${kind(state)}`}, words(state.status)),
      state.stale ? el('span', {class: 'pill warn'}, 'not confirmed by Apple lately') : null,
      state.provisional ? el('span', {class: 'pill warn'}, 'not confirmed by Apple yet') : null,
      state.environment === 'sandbox' ? el('span', {class: 'pill warn'}, 'sandbox') : null),
    why || el('p', {class: 'why'}, state.explanation),
    list(rows),
  ]
}

export const noteOf = (entry) => entry.note === null || entry.note === undefined ? null : el('p', {class: 'said'},
  el('small', null, `Note of ${entry.asked_by}`), el('bdi', null, entry.note))

/// Tells the outcome, and how the user stands, once the page shows it; or that it does not.
export async function refreshed(form, refresh, isCurrent, outcome, tone) {
  let now
  try { now = await refresh(isCurrent) } catch {
    if (isCurrent()) showMessage(form, `${outcome} The rest of this page is out of date: look the ID up again.`, 'warn')
    return
  }
  if (isCurrent()) showMessage(form, `${outcome} The tier is ${now.tier}, ${words(now.status)}.`, tone)
}

/// The button that shows a user: `customers.js` listens.
export const userButton = (user) => el('button', {type: 'button', class: 'quiet small', 'data-user': user,
  'aria-label': `Show the user ${user}`}, 'Show the user')
