// Elements and words that every part of the page uses. Everything that is shown is text that was set as text.

export const byID = (id) => document.getElementById(id)

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue
    if (name === 'on') for (const [event, action] of Object.entries(value)) element.addEventListener(event, action)
    else element.setAttribute(name, value === true ? '' : String(value))
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) element.append(child)
  return element
}
export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children)
export const svg = (name, attributes, ...children) =>
  fill(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children)
export const bdi = (text) => el('bdi', {class: 'id'}, text)

// MARK: Dates, in the reader's zone; the tooltip has them in UTC, as the service writes them

const dayOptions = {day: 'numeric', month: 'long', year: 'numeric'}
const clockOptions = {hour: '2-digit', minute: '2-digit', timeZoneName: 'short'}
export const day = new Intl.DateTimeFormat('en-GB', dayOptions)
const clock = new Intl.DateTimeFormat('en-GB', clockOptions)
const [utcDay, utcClock] = [dayOptions, clockOptions].map((options) =>
  new Intl.DateTimeFormat('en-GB', {...options, timeZone: 'UTC'}))
const written = (text, days, hours) => `${days.format(new Date(text))}, ${hours.format(new Date(text))}`
export const date = (text) => written(text, day, clock)
export const time = (text) => el('time', {datetime: text, title: written(text, utcDay, utcClock)}, date(text))
/// A moment for a list: without the year of now.
export function shortTime(text) {
  const moment = new Date(text)
  const format = new Intl.DateTimeFormat('en-GB', {day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit',
    ...(moment.getFullYear() === new Date().getFullYear() ? {} : {year: 'numeric'})})
  return el('time', {datetime: text, title: written(text, utcDay, utcClock)}, format.format(moment))
}
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone

/// A moment in milliseconds.
export const at = (text) => Date.parse(text)

/// A word of the service's as people write it.
export const words = (text) => String(text).replaceAll('_', ' ')

const wholes = new Intl.NumberFormat('en-GB')
export const count = (number) => wholes.format(number)

/// `1 purchase`, `2 purchases`.
export const several = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`

export const title = (heading, ...buttons) => el('div', {class: 'title'}, heading, buttons)

/// Names and what they stand for, without those that have no value.
export const list = (rows) => el('dl', null, rows.filter(([, value]) => value)
  .map(([name, value]) => [el('dt', null, name), el('dd', null, value)]))

/// Has the browser save a text as a file.
export function save(text, type, name) {
  const url = URL.createObjectURL(new Blob([text], {type}))
  const anchor = el('a', {href: url, download: name, hidden: true})
  document.body.append(anchor)
  anchor.click()
  anchor.remove()
  setTimeout(() => URL.revokeObjectURL(url), 10000)
}

/// Takes a text to the clipboard, where the browser lets a page do that.
export function copyButton(text, name, label = 'Copy') {
  if (!navigator.clipboard) return null
  const button = el('button', {type: 'button', class: 'quiet small', 'aria-label': name}, label)
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text)
      button.textContent = 'Copied'
    } catch { button.textContent = 'Not copied' }
    setTimeout(() => { button.textContent = label }, 2000)
  })
  return button
}
