// The records of a user: their export as a file, and their erasure.

import {el, save} from './elements.js'
import {complain, field, message, nameBox, needed, onSubmit, showMessage, work} from './forms.js'
import {ask, askRepeatably, userPath} from './service.js'

/// Everything as a file.
export function exportForm(user) {
  const form = el('form', {autocomplete: 'off', 'aria-labelledby': 'export-title'},
    el('h3', {id: 'export-title'}, 'Export'),
    el('p', {class: 'soft'}, 'Everything that is kept of this user, as a file for them. It holds their receipts: send it ' +
      'to nobody else.'),
    el('button', {type: 'submit', class: 'quiet'}, 'Export'), message())

  onSubmit(form, () => {
    work(form, 'Exporting…', async (isCurrent) => {
      const kept = await ask('GET', userPath(user, 'export'))
      if (!isCurrent()) return
      save(`${JSON.stringify(kept, null, 2)}\n`, 'application/json', 'countersign-export.json')
      showMessage(form,
        `Exported. Purchases: ${kept.purchases.length}; lines of the history: ${kept.history.length}.`, 'good')
    })
  })
  return form
}

/// - Parameter leave: takes the user off the page, and says why.
export function eraseForm(user, leave) {
  const typed = nameBox('erase-id')
  const form = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': 'erase-title'},
    el('h3', {id: 'erase-title'}, 'Erase'),
    el('p', {class: 'soft'}, 'For ever. Purchases stay without the name, for whoever presents the receipt; so do the devices ' +
      'of trials. Export first, if the user wants a copy, and delete the account in the app, or it comes back.'),
    field(typed, 'Type the user ID to confirm'),
    el('button', {type: 'submit', class: 'danger'}, 'Erase this user'), message())

  onSubmit(form, () => {
    const text = needed(typed, 'Type the user ID.')
    if (text === null) return
    if (text !== user) {
      complain(typed, 'This is not the ID of the user shown here. Nothing was erased.')
      return
    }
    work(form, 'Erasing…', async (isCurrent) => {
      const erased = await askRepeatably('DELETE', userPath(user))
      if (!isCurrent()) return
      leave(`Erased. Kept without the name: purchases ${erased.kept.purchases}, lines of the history ` +
        `${erased.kept.history}. ${rowAfterErasure[erased.profile_write] || ''}`,
      erased.profile_write === 'queued' ? 'warn' : 'good')
    })
  })
  return form
}

const rowAfterErasure = {
  committed: 'The profile row is reset.', missing: 'There is no profile row.', none: '',
  queued: 'The profile row is not reset yet: the ID is kept until it is.',
}
