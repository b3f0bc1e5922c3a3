// Purchases: whose they are, and the forms that move or attach one.

import {product} from './catalog.js'
import {bdi, byID, copyButton, el, list, time, title, words} from './elements.js'
import {busy, confirmed, field, message, nameBox, needed, noteBox, onSubmit, showMessage, work} from './forms.js'
import {ask, isErased, transactionPath, userPath} from './service.js'
import {noteOf, stateParts, userButton} from './verdict.js'

const nameOf = (purchase) => `${purchase.original_transaction_id}-${purchase.environment}`

const purchaseTitle = (purchase) => {
  const id = purchase.original_transaction_id
  return title(el('h2', {id: `purchase-${nameOf(purchase)}`, tabindex: -1}, 'Purchase ', bdi(id)),
    copyButton(id, `Copy the transaction ID ${id}`))
}

/// How a new owner stands now; `null` for one whom the service has never seen.
async function standing(owner) {
  const found = await ask('GET', `v1/lookup/${encodeURIComponent(owner)}`)
  return found.found_as.includes('user_id') ? (await ask('GET', userPath(owner, 'history?limit=1'))).now : null
}

const neverSeen = (owner) => `This service has never seen ${owner}. Is it typed correctly?`

/// - Parameter outcome: of what was just done with it.
export function purchaseCard(first, outcome = null) {
  const id = first.original_transaction_id
  const name = nameOf(first)
  const [to, note] = [nameBox(`to-${name}`), noteBox(`why-${name}`)]
  const about = el('div')
  let purchase = first
  const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': `move-${name}`},
    el('h3', {id: `move-${name}`}, 'Move it to another user'),
    el('p', {class: 'soft'}, 'Both users are re-evaluated at once, and the note is kept in the history of both.'),
    field(to, 'User ID of the new owner'), field(note, 'Note: why is it moved?'),
    el('button', {type: 'submit', class: 'danger'}, 'Move the purchase…'), message())

  function render() {
    about.replaceChildren(
      el('p', null, 'Belongs to ', bdi(purchase.user_id),
        purchase.owned_since ? [' since ', time(purchase.owned_since)] : null, '. ',
        isErased(purchase.user_id) ? 'Its user was erased: nobody gets it by presenting it, until you move it.'
          : userButton(purchase.user_id)),
      el('h3', null, 'What it gives by itself'),
      ...stateParts(purchase.state),
      el('h3', null, 'Owners'),
      el('ol', {class: 'history'}, purchase.ownership_changes.map((change) => el('li', null,
        el('p', {class: 'when'}, el('strong', null, change.from_user_id
          ? ['from ', bdi(change.from_user_id), ' to ', bdi(change.to_user_id)]
          : ['first presented by ', bdi(change.to_user_id)]), time(change.recorded_at)),
        noteOf(change)))))
  }

  onSubmit(form, () => {
    const owner = needed(to, 'Name the new owner.')
    const text = owner === null ? null : needed(note, 'Say in the note why it is moved.')
    if (text === null) return
    work(form, 'Looking…', async (isCurrent) => {
      const now = await standing(owner)
      if (!isCurrent()) return
      const change = `The purchase ${id} moves from ${purchase.user_id} to ${owner}. ` +
        `${purchase.user_id} loses what it gives at once.`
      const isSure = now
        ? await confirmed('Move the purchase?', `${change} ${owner} has the tier ${now.tier} now, ${words(now.status)}.`,
          'Move it')
        : await confirmed('Move it to an unknown user?', `${neverSeen(owner)} ${change}`, 'Move it anyway')
      if (!isSure || !isCurrent()) return
      busy(form, 'Moving…')
      const moved = await ask('POST', transactionPath(id, '/transfer'),
        {to: owner, note: text, environment: purchase.environment, create: !now})
      if (!isCurrent()) return
      purchase = moved
      to.value = ''
      note.value = ''
      render()
      // The finding of the look-up holds no longer.
      showMessage(byID('search-form'), '')
      showMessage(form, `Moved. The purchase belongs to ${moved.user_id} now.`, 'good')
    })
  })
  render()
  return el('section', {class: 'card', 'aria-labelledby': `purchase-${name}`}, purchaseTitle(first),
    outcome === null ? null : el('p', {class: 'message good', role: 'status', tabindex: -1}, outcome), about, form)
}

/// A purchase that nobody has here.
export function unownedCard(purchase, canAttach) {
  const id = purchase.original_transaction_id
  const name = nameOf(purchase)
  const rows = [['Product', purchase.product_id && product(purchase.product_id)], ['Environment', purchase.environment],
    ['Made for the account', purchase.app_account_token && bdi(purchase.app_account_token)]]
  const card = el('section', {class: 'card', 'aria-labelledby': `purchase-${name}`}, purchaseTitle(purchase),
    el('p', null, 'No user has it here. ', purchase.told_by === 'notification'
      ? 'Apple reported it in a notification.' : 'Apple was asked just now, and knows it.'),
    list(rows))
  if (!canAttach) {
    card.append(el('p', {class: 'notice warn'}, 'There is no key of the App Store Server API (app_store.server_api): ' +
      'without one it cannot be attached to a user. The customer can present it: “Restore purchases” in the app.'))
    return card
  }
  const [to, note] = [nameBox(`to-${name}`, purchase.app_account_token || ''), noteBox(`why-${name}`)]
  const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': `attach-${name}`},
    el('h3', {id: `attach-${name}`}, 'Attach it to a user'),
    el('p', {class: 'soft'}, 'Apple is asked about it, and the user is re-evaluated. The note is kept in the history.'),
    field(to, 'User ID of the owner'), field(note, 'Note: how do you know that it is theirs?'),
    el('button', {type: 'submit'}, 'Attach the purchase'), message())
  onSubmit(form, () => {
    const owner = needed(to, 'Name the owner.')
    const text = owner === null ? null : needed(note, 'Say in the note how you know that it is theirs.')
    if (text === null) return
    work(form, 'Looking…', async (isCurrent) => {
      const now = await standing(owner)
      if (!isCurrent()) return
      const isSure = now || await confirmed('Attach it to an unknown user?',
        `${neverSeen(owner)} The purchase ${id} becomes theirs.`, 'Attach it anyway')
      if (!isSure || !isCurrent()) return
      busy(form, 'Attaching…')
      const attached = await ask('POST', transactionPath(id, '/transfer'),
        {to: owner, note: text, environment: purchase.environment, create: !now})
      if (!isCurrent()) return
      const owned = purchaseCard(attached, `Attached. The purchase belongs to ${attached.user_id} now.`)
      card.replaceWith(owned)
      showMessage(byID('search-form'), '')
      owned.querySelector('.message').focus()
    })
  })
  card.append(form)
  return card
}
