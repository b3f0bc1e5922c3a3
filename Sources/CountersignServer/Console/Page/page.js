// The console: its key, its parts, and the banner of the downgrade brake. Each part is a module of its own.

import {brake} from './brake.js'
import {readTiers} from './catalog.js'
import {customers} from './customers.js'
import {byID, zone} from './elements.js'
import {extensions} from './extensions.js'
import {figures} from './figures.js'
import {busy, fail, idle, onSubmit, showMessage} from './forms.js'
import {health} from './health.js'
import {notifications} from './notifications.js'
import {recent} from './recent.js'
import {runs} from './runs.js'
import {ask, currentSession, useKey} from './service.js'
import {webhooks} from './webhooks.js'

const keyForm = byID('key-form')
const key = byID('key')
const navigation = byID('views')
const parts = [figures, recent, customers, runs, extensions, health, webhooks, notifications]

/// Where the page opens: at the figures, and for a key of the role “support” alone at the customers.
let home = customers

/// The part that the address names: `#/figures`; `#user=ID` is among the customers.
const partOfAddress = () => parts.find((part) => location.hash === `#/${part.name}`)
  || (location.hash.startsWith('#user=') ? customers : home)

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
  byID('zone').hidden = true
  navigation.hidden = true
  keyForm.hidden = false
  key.focus()
}

onSubmit(keyForm, () => {
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
    const [{roles}] = await Promise.all([ask('GET', 'v1/status'), readTiers()])
    if (mine !== currentSession()) return
    home = roles.includes('service') ? figures : customers
    keyForm.hidden = true
    byID('key-state').hidden = false
    byID('zone').hidden = false
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

byID('zone').textContent = zone === 'UTC' ? 'Times are in UTC.'
  : `Times are in your time zone, ${zone}; point at one for UTC. Days of figures, and those in sentences, are in UTC.`
let resizing = null
addEventListener('resize', () => {
  cancelAnimationFrame(resizing)
  resizing = requestAnimationFrame(() => { for (const part of parts) if (part.paint) part.paint() })
})

forget()
