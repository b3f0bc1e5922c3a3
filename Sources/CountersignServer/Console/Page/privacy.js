// What is kept of a user: as a file, and its end.

import {el} from './elements.js'
import {complain, field, message, needed, showMessage, userBox, work} from './forms.js'
import {ask, askRepeatably, userPath} from './service.js'

/// - Parameter leave: takes the user off the page, and says why.
export function privacyCard(user, leave) {
  const exportForm = el('form', {autocomplete: 'off', 'aria-labelledby': 'export-title'},
    el('h3', {id: 'export-title'}, 'Export'),
    el('p', {class: 'soft'}, 'Everything that is kept of this user, as a file for them. It holds their receipts: send it ' +
      'to nobody else.'),
    el('button', {type: 'submit', class: 'quiet'}, 'Export'), message())
  const typed = userBox('erase-id')
  const eraseForm = el('form', {autocomplete: 'off', novalidate: true, 'aria-labelledby': 'erase-title'},
    el('h3', {id: 'erase-title'}, 'Erase'),
    el('p', {class: 'soft'}, 'For ever. Purchases stay without the name, for whoever presents the receipt; so do the devices ' +
      'of trials. Export first, if the user wants a copy, and delete the account in the app, or it comes back.'),
    field(typed, 'Type the user ID to confirm'),
    el('button', {type: 'submit', class: 'danger'}, 'Erase this user'), message())

  exportForm.addEventListener('submit', (event) => {
    event.preventDefault()
    work(exportForm, 'Exporting…', async (isCurrent) => {
      const kept = await ask('GET', userPath(user, 'export'))
      if (!isCurrent()) return
      save(kept, 'countersign-export.json')
      showMessage(exportForm,
        `Exported. Purchases: ${kept.purchases.length}; lines of the history: ${kept.history.length}.`, 'good')
    })
  })
  eraseForm.addEventListener('submit', (event) => {
    event.preventDefault()
    const text = needed(typed, 'Type the user ID.')
    if (text === null) return
    if (text !== user) {
      complain(typed, 'This is not the ID of the user shown here. Nothing was erased.')
      return
    }
    work(eraseForm, 'Erasing…', async (isCurrent) => {
      const erased = await askRepeatably('DELETE', userPath(user))
      if (!isCurrent()) return
      leave(`Erased. Kept without the name: purchases ${erased.kept.purchases}, lines of the history ` +
        `${erased.kept.history}. ${rowAfterErasure[erased.profile_write] || ''}`,
      erased.profile_write === 'queued' ? 'warn' : 'good')
    })
  })
  return el('section', {class: 'card', 'aria-labelledby': 'privacy-title'},
    el('h2', {id: 'privacy-title'}, 'What is kept of this user'), exportForm, eraseForm)
}

const rowAfterErasure = {
  committed: 'The profile row is reset.', missing: 'There is no profile row.', none: '',
  queued: 'The profile row is not reset yet: the ID is kept until it is.',
}

/// Has the browser save a value as a file.
function save(value, name) {
  const url = URL.createObjectURL(new Blob([`${JSON.stringify(value, null, 2)}\n`], {type: 'application/json'}))
  const anchor = el('a', {href: url, download: name, hidden: true})
  document.body.append(anchor)
  anchor.click()
  anchor.remove()
  setTimeout(() => URL.revokeObjectURL(url), 10000)
}
