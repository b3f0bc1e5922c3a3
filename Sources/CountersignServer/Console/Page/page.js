// The console: its key, its parts, and the banner of the downgrade brake. Each part is a module of its own.

import {brake} from './brake.js'
import {customers} from './customers.js'
import {byID} from './elements.js'
import {figures} from './figures.js'
import {busy, fail, idle, showMessage} from './forms.js'
import {health} from './health.js'
import {notifications} from './notifications.js'
import {runs} from './runs.js'
import {ask, currentSession, useKey} from './service.js'
import {webhooks} from './webhooks.js'

const keyForm = byID('key-form')
const key = byID('key')
const navigation = byID('views')
const parts = [customers, figures, runs, health, webhooks, notifications]

/// The part that the address names: `#/figures`. Of any other address it is that of customers.
const partOfAddress = () => parts.find((part) => location.hash === `#/${part.name}`) || customers

/// Shows the part that the address names.
/// - Parameter isFirst: the key was just typed.
function openPart(isFirst = false) {
  const open = partOfAddress()
  for (const part of parts) {
    byID(part.name).hidden = part !== open
    if (part !== open && part.close) part.close()
  }
  for (const link of navigation.querySelectorAll('a')) {
    if (link.hash === `#/${open.name}`) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  const heading = byID(open.name).querySelector('h1')
  document.title = `${heading.textContent} – Countersign support`
  if (!isFirst) scrollTo(0, 0)
  // A screen reader goes on where the part begins.
  if (heading.tabIndex === -1 && heading.hasAttribute('tabindex')) heading.focus({preventScroll: true})
  open.open()
  brake.look()
}

function forget() {
  useKey(null)
  key.value = ''
  for (const part of [brake, ...parts]) part.clear()
  for (const part of parts) byID(part.name).hidden = true
  showMessage(keyForm, '')
  byID('key-state').hidden = true
  navigation.hidden = true
  keyForm.hidden = false
  key.focus()
}

keyForm.addEventListener('submit', (event) => {
  event.preventDefault()
  const typed = key.value.trim()
  key.value = ''
  if (!/^[\x21-\x7e]+$/.test(typed)) {
    showMessage(keyForm, 'A key has letters, digits and signs, and no spaces.', 'bad')
    return
  }
  signIn(typed)
})

/// Opens the page once the service knows the key.
async function signIn(typed) {
  useKey(typed)
  const mine = currentSession()
  busy(keyForm, 'Looking…')
  try {
    const {role} = await ask('GET', 'v1/status')
    if (mine !== currentSession()) return
    // Customers are for the role “support”.
    if (role !== 'support' && partOfAddress() === customers) window.history.replaceState(null, '', `#/${figures.name}`)
    keyForm.hidden = true
    byID('key-state').hidden = false
    navigation.hidden = false
    openPart(true)
  } catch (error) {
    if (mine !== currentSession()) return
    forget()
    fail(keyForm, error)
  } finally {
    idle(keyForm)
  }
}
byID('forget').addEventListener('click', () => {
  window.history.replaceState(null, '', location.pathname + location.search)
  forget()
})
document.addEventListener('key-refused', () => {
  forget()
  showMessage(keyForm, 'The service does not know this key. Type it again.', 'bad')
})
document.addEventListener('looked-up', () => brake.look())
addEventListener('pagehide', forget)
addEventListener('hashchange', () => {
  // The link that skips to the content names no part.
  if (keyForm.hidden && location.hash !== '#main') openPart()
})

let resizing = null
addEventListener('resize', () => {
  cancelAnimationFrame(resizing)
  resizing = requestAnimationFrame(() => { for (const part of parts) if (part.paint) part.paint() })
})

forget()
