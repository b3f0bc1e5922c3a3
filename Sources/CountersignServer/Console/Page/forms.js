// Forms: what they say of what they do, fields with complaints of their own, and a dialog that asks once more.

import {byID, el} from './elements.js'
import {ask, askRepeatably, currentSession} from './service.js'

export const message = () => el('p', {class: 'message', role: 'status', 'aria-live': 'polite'})

export function showMessage(form, text, tone = '') {
  const place = form.querySelector('.message')
  place.className = `message ${tone}`
  place.textContent = text
  if (text) place.scrollIntoView({block: 'nearest'})
}

export function fail(form, error) {
  if (error.status === 401) {
    document.dispatchEvent(new Event('key-refused'))
    return
  }
  const id = error.requestID ? ` (request ${error.requestID})` : ''
  showMessage(form, error.code === 'forbidden'
    ? `This key may not do that: use one of the role “${form.dataset.role || 'support'}”.` : `${error.message}${id}`, 'bad')
}

/// The label of each form's button while it does not wait.
const labels = new WeakMap()
export const buttonOf = (form) => form.querySelector('button[type=submit]')

export function busy(form, doing) {
  const button = buttonOf(form)
  if (!labels.has(button)) labels.set(button, button.textContent)
  button.disabled = true
  button.textContent = doing
  showMessage(form, '')
}

export function idle(form) {
  const button = buttonOf(form)
  button.disabled = false
  if (labels.has(button)) button.textContent = labels.get(button)
}

/// Clears the message of a form, and ends its busy state.
export function reset(form) {
  idle(form)
  showMessage(form, '')
}

/// Runs an action in place of the submission of a form.
export const onSubmit = (form, action) => form.addEventListener('submit', (event) => {
  event.preventDefault()
  action()
})

/// Runs what a form asks for, once at a time; the form says how it went, unless it is no longer shown.
export async function work(form, doing, action) {
  if (buttonOf(form).disabled) return
  const mine = currentSession()
  const isCurrent = () => mine === currentSession() && form.isConnected
  busy(form, doing)
  try {
    await action(isCurrent)
  } catch (error) {
    if (isCurrent()) fail(form, error)
  } finally {
    idle(form)
    // A button that waits loses the focus.
    if (isCurrent() && document.activeElement === document.body) buttonOf(form).focus({preventScroll: true})
  }
}

export function field(control, label) {
  const complaint = el('p', {id: `${control.id}-error`, class: 'field-error', role: 'alert'})
  control.setAttribute('aria-describedby', complaint.id)
  control.addEventListener('input', () => complain(control, ''))
  return el('div', {class: 'field'}, el('label', {for: control.id}, label), control, complaint)
}

export function complain(control, text) {
  const complaint = byID(`${control.id}-error`)
  complaint.textContent = text
  if (text) {
    control.setAttribute('aria-invalid', 'true')
    control.focus()
    complaint.scrollIntoView({block: 'nearest'})
  } else control.removeAttribute('aria-invalid')
}

/// The text of a field; `null`, and the field complains, where there is none.
export function needed(control, complaint) {
  const text = control.value.trim()
  complain(control, text ? '' : complaint)
  return text || null
}

export const noteBox = (id) => el('textarea', {id, maxlength: 1000, 'aria-required': 'true', rows: 3})
export const nameBox = (id, value = '') => el('input', {id, type: 'text', maxlength: 128, 'aria-required': 'true',
  spellcheck: 'false', autocapitalize: 'none', autocomplete: 'off', value})

export const select = (id, choices) =>
  el('select', {id}, choices.map(([value, text]) => el('option', {value}, text)))

/// Buttons, each of which opens a form below them and closes the one that is open. Escape closes it.
/// - Parameter items: each with a `name` for IDs, a `label`, what it `opens`, and whether it is `quiet`.
export function actions(items) {
  const buttons = items.map(({name, label}) => el('button', {type: 'button', class: 'quiet', id: `open-${name}`,
    'aria-expanded': 'false', 'aria-controls': `action-${name}`}, label))
  const panels = items.map(({name, opens}) => el('div', {class: 'action', id: `action-${name}`, hidden: true}, opens))

  function show(open) {
    panels.forEach((panel, index) => {
      panel.hidden = index !== open
      buttons[index].setAttribute('aria-expanded', String(index === open))
    })
  }

  buttons.forEach((button, index) => {
    button.addEventListener('click', () => {
      if (!panels[index].hidden) return show(null)
      show(index)
      const first = panels[index].querySelector('input, select, textarea, button')
      if (first) first.focus()
    })
    panels[index].addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return
      show(null)
      button.focus()
    })
  })
  return el('div', {class: 'doing'}, el('div', {class: 'buttons', role: 'group', 'aria-label': 'Actions'}, buttons), panels)
}

/// `crypto.randomUUID` is missing where the page came without TLS.
const randomKey = () =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('')

/// Posts under one idempotency key until the answer comes, so that a repeated request takes effect once.
export function poster() {
  let sent = {}
  return async (path, order) => {
    const body = JSON.stringify([path, order])
    if (sent.body !== body) sent = {body, key: randomKey()}
    const answer = await askRepeatably('POST', path, order, {'Idempotency-Key': sent.key})
    sent = {}
    return answer
  }
}

/// A list that is read when its view opens, and polled while an item is under way.
/// - Parameters:
///   - path: the address; the answer has the list under `member`.
///   - none: the text of `note` for an empty list.
///   - pause: between two looks, in milliseconds.
export function watchedList({form, note, shown, path, member, none, item, isUnderWay, pause}) {
  let timer = null
  let isOpen = false

  async function look() {
    clearTimeout(timer)
    const mine = currentSession()
    const isCurrent = () => isOpen && mine === currentSession()
    let found
    try { found = (await ask('GET', path))[member] } catch (error) {
      if (isCurrent()) fail(form, error)
      return
    }
    if (!isCurrent()) return
    note.textContent = found.length === 0 ? none : ''
    shown.replaceChildren(...found.map(item))
    clearTimeout(timer)
    if (found.some(isUnderWay)) timer = setTimeout(look, pause)
  }

  function open() {
    isOpen = true
    showMessage(form, '')
    look()
  }

  function close() {
    isOpen = false
    clearTimeout(timer)
  }

  function clear() {
    close()
    note.textContent = ''
    shown.replaceChildren()
    reset(form)
  }

  return {look, open, close, clear}
}

/// Asks once more. What does no harm is what Enter does.
export function confirmed(question, text, yes) {
  const [dialog, yesButton, noButton] = ['confirm', 'confirm-yes', 'confirm-no'].map(byID)
  byID('confirm-title').textContent = question
  byID('confirm-text').textContent = text
  yesButton.textContent = yes
  return new Promise((resolve) => {
    const before = document.activeElement
    const done = new AbortController()
    const end = (answer) => {
      done.abort()
      dialog.close()
      if (before && before.isConnected) before.focus()
      resolve(answer)
    }
    yesButton.addEventListener('click', () => end(true), {signal: done.signal})
    noButton.addEventListener('click', () => end(false), {signal: done.signal})
    dialog.addEventListener('cancel', (event) => { event.preventDefault(); end(false) }, {signal: done.signal})
    dialog.showModal()
    noButton.focus()
  })
}
