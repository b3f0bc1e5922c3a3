// A user: how they stand, the picture, the history, and what can be done for them.

import {product} from './catalog.js'
import {bdi, copyButton, date, day, el, list, time, title, words} from './elements.js'
import {extendForm} from './extensions.js'
import {actions, buttonOf, field, message, needed, noteBox, onSubmit, showMessage, work} from './forms.js'
import {givenCard, trialsCard} from './grants.js'
import {eraseForm, exportForm} from './privacy.js'
import {refundsForm} from './refunds.js'
import {ask, isErased, userLink, userPath} from './service.js'
import {draw} from './timeline.js'
import {endName, isGiven, kind, noteOf, refreshed, stateParts, userButton} from './verdict.js'

/// - Parameters:
///   - tiers: those that can be given.
///   - more: what else the same ID is.
///   - show: puts cards on the page.
///   - leave: takes the user off the page, and says why.
/// - Returns: draws the picture anew.
export function showUser(first, tiers, more, show, leave) {
  const user = first.user_id
  let history = first
  let entries = [...first.entries]
  let next = first.next
  const state = el('div')
  const entriesList = el('ol', {class: 'history'})
  const picture = el('div', {class: 'picture'})
  const said = el('div')
  const olderForm = el('form', {autocomplete: 'off'},
    el('button', {type: 'submit', class: 'quiet'}, 'Older entries'), message())
  const form = revalidationForm(user, refresh)
  const given = givenCard(user, tiers, refresh)
  const trials = trialsCard()
  const extending = extendForm(refresh)
  const nothing = el('p', {class: 'soft'}, 'Nothing has happened yet.')
  const owned = el('ul', {class: 'purchases', 'aria-label': purchasesLabel})
  const doing = actions([
    {name: 'ask', label: 'Ask Apple again', opens: form},
    {name: 'give', label: 'Give access', opens: given.form},
    {name: 'refunds', label: 'Refunds', opens: refundsForm(user, refresh)},
    {name: 'extend', label: 'Extend', opens: extending.form},
    {name: 'move', label: purchasesLabel, opens: owned},
    {name: 'export', label: 'Export', opens: exportForm(user)},
    {name: 'erase', label: 'Erase', opens: eraseForm(user, leave)},
  ])

  function paint() { draw(picture, history, entries) }

  function render() {
    const purchases = [...new Set(history.periods.map((period) => period.original_transaction_id))]
    const moved = movedAway(user, entries)
    const why = purchases.length === 0 && moved.length > 0 && !isGiven(history.now)
      ? el('div', {class: 'moved why'}, moved.map(movedText)) : null
    state.replaceChildren(
      ...stateParts(history.now, history.periods, why),
      ...(why ? [] : moved.map((change) => el('div', {class: 'moved soft'}, movedText(change)))))
    owned.replaceChildren(...purchases.map((id) => el('li', null, 'Purchase ', bdi(id),
      copyButton(id, `Copy the transaction ID ${id}`),
      el('button', {type: 'button', class: 'quiet small', 'data-transaction': id,
        'aria-label': `Show or move the purchase ${id}`}, 'Show or move'))))
    // Without a purchase there is nothing to ask about, and nothing to move.
    const isThere = {ask: purchases.length > 0, refunds: purchases.length > 0, move: purchases.length > 0, extend: extending.show(history)}
    for (const name of Object.keys(isThere)) {
      doing.querySelector(`#open-${name}`).hidden = !isThere[name]
      if (!isThere[name]) doing.querySelector(`#action-${name}`).hidden = true
    }
    given.show(history)
    trials.show(history)
    said.replaceChildren(...termsOf(history.periods))
    nothing.hidden = entries.length > 0
    entriesList.replaceChildren(...folded(entries))
    buttonOf(olderForm).hidden = !next
    paint()
  }

  /// Reads the user anew, in place: what was just done stays in view.
  /// - Returns: how they stand now.
  async function refresh(isCurrent) {
    const page = await readUser(user)
    if (!isCurrent()) return null
    history = page
    entries = [...page.entries]
    next = page.next
    render()
    // Messages about the user from before may hold no longer.
    for (const told of document.querySelectorAll('#search-form .message, #result .message')) told.textContent = ''
    return page.now
  }

  onSubmit(olderForm, () => {
    work(olderForm, 'Reading…', async (isCurrent) => {
      const page = await ask('GET', next)
      if (!isCurrent()) return
      entries.push(...page.entries)
      next = page.next
      render()
      showMessage(olderForm, next ? `${entries.length} entries are shown.` : `All ${entries.length} entries are shown.`)
    })
  })

  show(
    el('section', {class: 'card', 'aria-labelledby': 'user-title'},
      title(el('h2', {id: 'user-title', tabindex: -1}, 'User ', bdi(user)),
        copyButton(user, 'Copy the user ID'),
        copyButton(location.href.split('#')[0] + userLink(user), 'Copy a link to this user',
          'Copy link')),
      state, doing),
    el('section', {class: 'card', 'aria-labelledby': 'picture-title'},
      el('h2', {id: 'picture-title'}, 'Timeline'), picture, said),
    given.card,
    trials.card,
    el('section', {class: 'card', 'aria-labelledby': 'history-title'},
      el('h2', {id: 'history-title'}, 'History'), nothing, entriesList, olderForm),
    ...more)
  render()
  return paint
}

/// The terms of the transactions and of the renewals after them: prices, offers, refunds, commitments.
function termsOf(periods) {
  const told = periods.filter((period) => period.terms || period.renewal)
  if (told.length === 0) return []
  const rows = (said, next) => Object.entries(said || {}).map(([name, value]) => {
    const text = Array.isArray(value) ? value.map((item) => item.name || item.sku).join(', ') : value
    const label = `${next ? 'next ' : ''}${words(name)}`.replace(/ at$/, '').replace(/\bid$/, 'ID')
    return [label[0].toUpperCase() + label.slice(1),
      name.endsWith('_at') ? time(value) : bdi(String(name === 'revocation_percentage' ? `${value / 1000} %` : text))]
  })
  return [el('details', null, el('summary', null, 'What Apple says of each transaction'),
    el('ol', {class: 'terms'}, told.map((period) => el('li', {class: 'entry'},
      el('p', {class: 'when'}, el('strong', null, bdi(period.product_id)), bdi(period.transaction_id),
        period.starts_at ? time(period.starts_at) : null),
      list([...rows(period.terms), ...rows(period.renewal, true)])))))]
}

/// The purchases that went to somebody else and have not come back, as far as the entries go.
function movedAway(user, entries) {
  const told = new Set()
  return entries.filter((entry) => {
    if (entry.kind !== 'ownership_change') return false
    const purchase = `${entry.environment} ${entry.original_transaction_id}`
    if (told.has(purchase)) return false
    told.add(purchase)
    return entry.from_user_id === user && entry.to_user_id !== user
  })
}

function movedText(change) {
  return [
    el('p', null, 'The purchase ', bdi(change.original_transaction_id), ' was moved to ', bdi(change.to_user_id), ' on ',
      time(change.recorded_at), '. ',
      isErased(change.to_user_id) ? null
        : userButton(change.to_user_id)),
    noteOf(change),
  ]
}

const purchasesLabel = 'Show or move a purchase'
const kinds = {verdict: 'Check', ownership_change: 'Owner', revalidation: 'Apple asked again', removed: 'Removed'}

/// Checks that change nothing, two or more in a row, are one line to be opened.
function folded(entries) {
  const items = []
  let run = []
  const close = () => {
    if (run.length < 2) items.push(...run.map(entryItem))
    else {
      const [last, first] = [run[0], run[run.length - 1]].map((entry) => day.format(new Date(entry.recorded_at)))
      items.push(el('li', {class: 'folded'}, el('details', null,
        el('summary', null, `${run.length} checks without a change, ${first === last ? first : `${first} to ${last}`}`),
        el('ol', {class: 'history'}, run.map(entryItem)))))
    }
    run = []
  }
  for (const entry of entries) {
    if (entry.kind === 'verdict' && entry.changed === false && !entry.note) run.push(entry)
    else {
      close()
      items.push(entryItem(entry))
    }
  }
  close()
  return items
}

function entryItem(entry) {
  const verdict = entry.kind === 'verdict' && el('span', {class: `pill ${kind(entry)}`},
    `${entry.tier}, ${words(entry.status)}`)
  const known = [
    ['Reason', entry.reason && words(entry.reason)],
    [endName(entry), entry.expires_at && date(entry.expires_at)],
    ['Access until', entry.access_until && date(entry.access_until)],
    ['Commitment until', entry.commitment_expires_at && date(entry.commitment_expires_at)],
    ['Product', entry.product_id && product(entry.product_id)],
    ['Original transaction', entry.original_transaction_id],
    ['Environment', entry.environment],
    ['From', entry.from_user_id],
    ['To', entry.to_user_id],
    ['Confirmed by Apple', entry.evidence_at && date(entry.evidence_at)],
    ['Setting', entry.decision && entry.decision.policy &&
      `${entry.decision.policy.key}: ${entry.decision.policy.value}`],
    ['Request', entry.request_id],
  ].map(([name, value]) => [name, typeof value === 'string' ? bdi(value) : value])
  return el('li', {class: 'entry'},
    el('p', {class: 'when'}, el('strong', null, kinds[entry.kind] || words(entry.kind)), verdict || null,
      time(entry.recorded_at)),
    el('p', null, entry.explanation), noteOf(entry),
    el('details', null, el('summary', null, 'Details'), list(known)))
}

/// A user's history, with what was given to them and the trials that they began.
export async function readUser(id) {
  const [history, given, begun] = await Promise.all(
    ['history', 'grants', 'trials'].map((rest) => ask('GET', userPath(id, rest))))
  return {...history, grants: given.grants, trials: begun.trials}
}

function revalidationForm(user, refresh) {
  const note = noteBox('ask-note')
  const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': 'ask-title'},
    el('h3', {id: 'ask-title'}, 'Ask Apple again'),
    el('p', {class: 'soft'}, 'About everything this user owns, and all that was paid for it. The note is kept in the history.'),
    field(note, 'Note: why do you ask?'),
    el('button', {type: 'submit'}, 'Ask Apple again'), message())
  onSubmit(form, () => {
    const text = needed(note, 'Say in the note why you ask.')
    if (text === null) return
    work(form, 'Asking…', async (isCurrent) => {
      const answer = await ask('POST', userPath(user, 'revalidation'), {note: text})
      if (!isCurrent()) return
      note.value = ''
      const [outcome, tone] = answer.stale
        ? ['Apple could not be asked about everything. The last proven state stands.', 'warn'] : ['Asked.', 'good']
      await refreshed(form, refresh, isCurrent, outcome, tone)
    })
  })
  return form
}
